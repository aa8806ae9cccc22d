/** Checks a message against the JSON Schema that livejoin publishes: as much of it as that schema uses. Pure. */
/** What is wrong with a text that should be a message; nothing: it can be sent. */
export function check(text, schema) {
    let value;
    try {
        value = JSON.parse(text);
    }
    catch (error) {
        return [{ level: "error", text: `not JSON: ${where(text, error instanceof Error ? error.message : "")}` }];
    }
    const found = wrong(value, schema, "").map((one) => ({ level: "error", text: one }));
    if (typeof value !== "object" || value === null || Array.isArray(value))
        return found;
    const known = Object.keys(schema.properties ?? {});
    for (const name of Object.keys(value)) {
        if (known.includes(name))
            continue;
        const near = known.find((one) => one.toLowerCase() === name.toLowerCase());
        found.push({
            level: "warning",
            text: `"${name}" is not known and will be ignored${near ? `; did you mean ${near}?` : ""}`,
        });
    }
    const none = !found.some(({ level }) => level === "error") && !Object.keys(value).some((name) => known.includes(name));
    return none ? [{ level: "error", text: `no known field: there are ${known.join(", ")}` }, ...found] : found;
}
/** A parser's message with line and column, which it tells as a position, if at all. */
function where(text, message) {
    const at = /position (\d+)/.exec(message);
    if (!at || /line \d+/.test(message))
        return message || "it cannot be read";
    const before = text.slice(0, Number(at[1])).split("\n");
    return `${message} (line ${before.length}, column ${(before.at(-1)?.length ?? 0) + 1})`;
}
function wrong(value, schema, name) {
    const at = name ? `${name}: ` : "";
    if (schema.oneOf) {
        const fits = schema.oneOf.some((one) => !wrong(value, one, name).length);
        return fits ? [] : [`${at}${schema.description ?? "fits none of what is allowed"}`];
    }
    const types = schema.type === undefined ? [] : [schema.type].flat();
    if (types.length && !types.includes(typeOf(value)) && !(types.includes("number") && typeOf(value) === "integer")) {
        return [`${at}expected ${types.join(" or ")}, got ${typeOf(value)}`];
    }
    if (typeof value === "string")
        return wrongText(value, schema, at);
    if (typeof value === "object" && value !== null)
        return wrongObject(value, schema, at);
    return [];
}
function wrongText(value, { pattern, maxLength, description }, at) {
    if (maxLength !== undefined && value.length > maxLength)
        return [`${at}has more than ${maxLength} characters`];
    if (pattern !== undefined && !new RegExp(pattern, "u").test(value)) {
        return [`${at}"${value}" does not fit${description ? `: ${description}` : ""}; it should match ${pattern}`];
    }
    return [];
}
function wrongObject(value, schema, at) {
    const names = Object.keys(value);
    if (schema.minProperties !== undefined && names.length < schema.minProperties)
        return [`${at}holds nothing`];
    const found = [];
    for (const name of names) {
        const own = schema.properties?.[name];
        if (own)
            found.push(...wrong(value[name], own, at ? `${at.slice(0, -2)}.${name}` : name));
        else if (schema.additionalProperties === false)
            found.push(`${at}"${name}" is not allowed here`);
    }
    return found;
}
function typeOf(value) {
    if (value === null)
        return "null";
    if (Array.isArray(value))
        return "array";
    return Number.isInteger(value) ? "integer" : typeof value;
}
