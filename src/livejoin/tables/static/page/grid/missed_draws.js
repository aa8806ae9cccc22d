/**
 * The engine draws by itself when a grid is resized or comes into view. If its view is being replaced just then, the
 * draw ends with "View not found"; most of the engine's own callers ignore that error, some leave it unhandled. Such a
 * draw is repeated, from the new view. All other errors are still reported.
 */
const VIEW_GONE = "View not found";
export function repeatMissedDraws(draw) {
    addEventListener("unhandledrejection", (event) => {
        const reason = event.reason;
        if ((reason instanceof Error ? reason.message : String(reason)) !== VIEW_GONE)
            return;
        event.preventDefault();
        draw();
    });
}
