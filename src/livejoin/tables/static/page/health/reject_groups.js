/** Rejects in groups of the same source and rule. Pure. The reasons are those of docs/records.md. */
const GOT = ", got ";
const MAX_VALUE = 80; // characters of a value; what is longer is cut
const NEXT_FIELD = /^; (?=[^"]*?: expected )/;
/** The largest groups first. `rejects` are newest first. */
export function groupRejects(rejects) {
    const groups = new Map();
    for (const reject of rejects) {
        const rule = ruleOf(reject.reason);
        const key = `${reject.source} ${rule}`;
        const group = groups.get(key) ?? { key, source: reject.source, rule, rejects: [] };
        group.rejects.push(reject);
        groups.set(key, group);
    }
    return [...groups.values()].sort((a, b) => b.rejects.length - a.rejects.length || (a.key < b.key ? -1 : 1));
}
/** A reason without the values found: of `age: expected int64, got "abc"` it is `age: expected int64`. */
export function ruleOf(reason) {
    const rules = [];
    let rest = reason;
    for (;;) {
        const [rule = "", ...values] = rest.split(GOT);
        if (!values.length)
            return [...rules, rest.replace(/, \d+ bytes$/, "")].join("; ");
        rules.push(rule);
        const found = values.join(GOT);
        const after = found.slice(valueLength(found));
        const next = NEXT_FIELD.exec(after);
        // a value that is not JSON, or no object, is found in the whole record: nothing follows it
        if (!next || rule === "value: not valid JSON" || rule === "value: expected an object")
            return rules.join("; ");
        rest = after.slice(next[0].length);
    }
}
/** Length of the JSON text at the beginning, which may have been cut. */
function valueLength(text) {
    let [length, characters, depth] = [0, 0, 0];
    let quoted = false;
    let escaped = false;
    for (const character of text) {
        if (characters === MAX_VALUE || (character === ";" && !quoted && !depth))
            break;
        characters += 1;
        length += character.length;
        if (escaped)
            escaped = false;
        else if (quoted && character === "\\")
            escaped = true;
        else if (character === '"')
            quoted = !quoted;
        else if (!quoted && "[{".includes(character))
            depth += 1;
        else if (!quoted && "]}".includes(character))
            depth -= 1;
    }
    return length;
}
