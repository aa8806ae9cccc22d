/** What the server says of itself: users with an account, readiness checks, Spark's UI. */
import { byId, descriptionList, element } from "../ui/dom.js";
import { formatCount, plural } from "../ui/format.js";
/** What a check is about, where its name does not say it. */
const EXPLANATIONS = {
    kafka: "the cluster of livejoin's own topics answers",
    kafka_data: "the cluster of the source topics answers",
    kafka_control: "the cluster of the control topic answers",
    ledger: "what is live has been read from livejoin's own topics",
    follower: "new rows are being read",
    format: "this server understands what the leader writes",
    leader: "a livejoin leads, and builds what is requested",
    "live generation": "there are tables to show",
    staleness: "the rows are up to date",
    lag: "Kafka says where the topics end",
    "this page": "it has the server's rows",
};
export function drawMatches({ users, matched, unmatched }) {
    const percent = users ? (100 * matched) / users : 0;
    const fill = element("span", { class: "fill" });
    fill.style.width = `${percent}%`;
    const label = `${percent.toFixed(0)} % of the users have an account`;
    byId("matched").replaceChildren(descriptionList([
        ["With an account", `${formatCount(matched)} (${percent.toFixed(1)} %)`],
        ["Without", formatCount(unmatched)],
    ]), element("div", { class: "meter", role: "img", "aria-label": label }, fill));
}
/** `mismatches` is the number of heartbeats that did not match the rows of this page. */
export function drawChecks(checks, mismatches) {
    const why = `differed from the server ${plural(mismatches, "time")} and was resynchronized`;
    const page = { name: "this page", ok: !mismatches, why };
    byId("checks").replaceChildren(...[...checks, page].map(({ name, ok, why: trouble }) => element("li", { "data-ok": ok }, element("b", {}, name), ok ? " is fine" : ` ${trouble}`, element("span", { class: "muted" }, ok && EXPLANATIONS[name] ? `: ${EXPLANATIONS[name]}` : ""))));
}
export function drawSparkUi(address) {
    const link = byId("spark-ui");
    link.hidden = !address;
    if (address)
        link.href = address;
    byId("no-spark-ui").hidden = Boolean(address);
}
