/** What became of a control message or a generation: at most one is live, whatever the messages were answered. Pure. */
const status = (kind, label = kind.replace("-", " ")) => ({ kind, label });
/** By the state of the generation: the outcome of its message stays `live` when another one is live. */
export function generationStatus({ state }, outcome, rolledBack) {
    switch (state) {
        case "live":
        case "building":
        case "retired":
        case "failed":
            return status(state);
        case "standby":
            return status(rolledBack ? "rolled-back" : "standby");
        default: // superseded; the message that requested it knows whether it was cancelled
            return status("stopped", outcome === "cancelled" ? outcome : state);
    }
}
/** Of a message without a generation of its own. */
export function messageStatus({ outcome, reason }, wentBack) {
    if (wentBack)
        return status("rolled-back");
    switch (outcome) {
        case "live": // a heartbeat has a reason; without one, the log no longer has the line that names the generation
            return reason ? status("no-change") : status("retired", "went live");
        case "building":
        case "repeated":
            return reason ? status("no-change") : status("building", outcome);
        case "previewed":
            return status("no-change", "preview");
        case "history":
            return status("no-change", "history");
        case "rejected":
        case "failed":
            return status("failed", outcome);
        case "rolled-back":
            return status("rolled-back");
        case "retired":
            return status("retired");
        case "superseded":
        case "cancelled":
            return status("stopped", outcome);
        default: // accepted, caught-up
            return status("building", outcome);
    }
}
