/** A change that people see as one step, however many parts the page draws it in. */

const HOLD_MS = 2000; // 30,000 rows in each table take 0.7 s; longer is not worth a page that stands still

/** Keep the picture as it is until the change is done. */
export async function atOnce(change: () => Promise<void>) {
  if (!document.startViewTransition) return change();
  const held = document.startViewTransition(change);
  for (const end of [held.ready, held.finished]) end.catch(() => {}); // it is skipped below, and failures are told once
  const enough = setTimeout(() => held.skipTransition(), HOLD_MS);
  try {
    await held.updateCallbackDone;
  } finally {
    clearTimeout(enough);
    held.skipTransition();
  }
}
