/** How a table first becomes a chart: one of single rows is of little use. Pure. */
import { isInternal } from "../arrange/arrangement.js";
const OWN = {
    rejects_ui: { group_by: ["reason"], columns: ["offset"], aggregates: { offset: "count" } },
    orchestrator_logs: { group_by: ["level"], columns: ["msg"], aggregates: { msg: "count" } },
    control_raw: { group_by: ["outcome"], columns: ["offset"], aggregates: { offset: "count" } },
    generations: { group_by: ["generation"], columns: ["catchUpSeconds"] },
    orchestrator_status: {},
    audit: {},
};
/**
 * The last measure of a source or of the join, summed for each value of the text before it; without a measure the rows
 * for each whole number, or else for each text.
 */
export function chartDefaults(table, types) {
    if (OWN[table])
        return OWN[table];
    const [key = "", ...others] = Object.keys(types).filter((name) => !isInternal(name));
    const last = (type, names) => names.findLast((name) => types[name] === type);
    const measure = last("float", others);
    const group = last("string", measure ? others.slice(0, others.indexOf(measure)) : []);
    if (measure && group)
        return summed(measure, group, table === "final_ui");
    const counted = last("integer", others) ?? last("boolean", others) ?? last("string", others);
    return counted ? { group_by: [counted], columns: [key], aggregates: { [key]: "count" } } : {};
}
/** Perspective's charts label the null group with another one's name: the join, which has one, is shown without. */
function summed(measure, group, withoutNull) {
    const config = { group_by: [group], columns: [measure], aggregates: { [measure]: "sum" } };
    return withoutNull ? { ...config, filter: [[group, "is not null", null]] } : config;
}
