/** Validates a message against the published JSON Schema. Supports the keywords that this schema uses. Pure. */
import { nearest } from "./nearest.js";
/** Errors and warnings about a message; without an error it can be sent. */
export function checkMessage(json, schema) {
    let value;
    try {
        value = JSON.parse(json);
    }
    catch (error) {
        return [{ level: "error", text: `not valid JSON: ${locate(json, error instanceof Error ? error.message : "")}` }];
    }
    const findings = validate(value, schema, "").map((text) => ({ level: "error", text }));
    if (typeof value !== "object" || value === null || Array.isArray(value))
        return findings;
    const known = Object.keys(schema.properties ?? {});
    const names = Object.keys(value);
    if (!findings.length && !names.some((name) => known.includes(name))) {
        findings.push({ level: "error", text: `no known field; the fields are ${known.join(", ")}` });
    }
    const unknown = names.filter((name) => !known.includes(name));
    return [...findings, ...unknown.map((name) => unknownField(name, known, names))];
}
function unknownField(name, known, present) {
    const text = `"${name}" is unknown and will be ignored`;
    const similar = nearest(name, known);
    if (!similar || present.includes(similar))
        return { level: "warning", text };
    return { level: "warning", text, rename: [name, similar] };
}
/** Add line and column to a parser error that has only a position. */
function locate(json, message) {
    const position = /position (\d+)/.exec(message);
    if (!position || /line \d+/.test(message))
        return message || "it cannot be parsed";
    const lines = json.slice(0, Number(position[1])).split("\n");
    return `${message} (line ${lines.length}, column ${(lines.at(-1)?.length ?? 0) + 1})`;
}
function validate(value, schema, path) {
    const prefix = path ? `${path}: ` : "";
    if (schema.oneOf) {
        const matches = schema.oneOf.some((option) => !validate(value, option, path).length);
        return matches ? [] : [`${prefix}${schema.description ?? "matches none of the allowed forms"}`];
    }
    const types = schema.type === undefined ? [] : [schema.type].flat();
    const type = typeOf(value);
    if (types.length && !types.includes(type) && !(types.includes("number") && type === "integer")) {
        return [`${prefix}expected ${types.join(" or ")}, got ${type}`];
    }
    if (typeof value === "string")
        return validateString(value, schema, prefix);
    if (typeof value !== "object" || value === null)
        return [];
    return validateObject(value, schema, path);
}
function validateString(value, { pattern, maxLength, description }, prefix) {
    if (maxLength !== undefined && value.length > maxLength)
        return [`${prefix}longer than ${maxLength} characters`];
    if (pattern !== undefined && !new RegExp(pattern, "u").test(value)) {
        return [`${prefix}"${value}" is not valid${description ? `: ${description}` : ""}; it must match ${pattern}`];
    }
    return [];
}
function validateObject(value, schema, path) {
    const prefix = path ? `${path}: ` : "";
    const names = Object.keys(value);
    if (schema.minProperties !== undefined && names.length < schema.minProperties)
        return [`${prefix}is empty`];
    const errors = [];
    for (const name of names) {
        const property = schema.properties?.[name];
        if (property)
            errors.push(...validate(value[name], property, path ? `${path}.${name}` : name));
        else if (schema.additionalProperties === false)
            errors.push(`${prefix}"${name}" is not allowed here`);
    }
    return errors;
}
function typeOf(value) {
    if (value === null)
        return "null";
    if (Array.isArray(value))
        return "array";
    return Number.isInteger(value) ? "integer" : typeof value;
}
