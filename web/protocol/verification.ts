/**
 * Verifies the replicated tables: row count and hash of each table against every heartbeat.
 * Works through the parts in order, a few milliseconds at a time, so that large tables do not block the page.
 * Asks for new snapshots after a mismatch, with back-off if they do not help.
 */

import type { FrameHeader, PartKind } from "./frame.js";
import { TableHash } from "./table_hash.js";

const SLICE_MS = 4; // a quarter of a display frame
const MAX_RETRY_MS = 60_000; // a hash that never matches must not cause a stream of snapshots

/** Row count and hash of each table, as a heartbeat reports them. */
export type TableDigests = NonNullable<FrameHeader["tables"]>;

export class Verifier {
  mismatches = 0; // heartbeats that did not match
  #hashes: Map<string, TableHash> = new Map();
  #work: Generator<void>[] = [];
  #scheduled = false;
  #attempts = 0; // snapshots requested since the last match
  #retryAt = 0;
  #onMismatch: (resubscribe: boolean) => void;

  /** `onMismatch` is called for each heartbeat that does not match; `resubscribe` asks for new snapshots. */
  constructor(onMismatch: (resubscribe: boolean) => void) {
    this.#onMismatch = onMismatch;
  }

  /** A part has been applied to a table. */
  applied(table: string, kind: PartKind, payload: ArrayBuffer): void {
    let hash = this.#hashes.get(table);
    if (!hash) this.#hashes.set(table, (hash = new TableHash()));
    this.#enqueue(hash.apply(kind, payload));
  }

  /** The table is no longer subscribed to. */
  forget(table: string): void {
    this.#hashes.delete(table);
  }

  /** A heartbeat came after the parts applied so far. `rows` are the row counts of the replicas. */
  heartbeat(expected: TableDigests, rows: Record<string, number>): void {
    this.#enqueue(this.#compare(expected, rows));
  }

  *#compare(expected: TableDigests, rows: Record<string, number>): Generator<void> {
    const differs = Object.entries(expected).some(([table, { rows: count, hash }]) => {
      const own = this.#hashes.get(table);
      return own && (rows[table] !== count || own.rows !== count || own.hex !== hash);
    });
    if (!differs) {
      this.#attempts = 0;
      return;
    }
    this.mismatches += 1;
    const now = performance.now(); // monotonic, unlike the wall clock
    const resubscribe = now >= this.#retryAt;
    if (resubscribe) {
      this.#retryAt = now + Math.min(1000 * 2 ** this.#attempts, MAX_RETRY_MS);
      this.#attempts += 1;
    }
    this.#onMismatch(resubscribe);
  }

  #enqueue(work: Generator<void>): void {
    this.#work.push(work);
    if (!this.#scheduled) this.#run();
  }

  #run(): void {
    this.#scheduled = false;
    // a hidden page has its timers throttled, and does not have to stay responsive
    const end = globalThis.document?.hidden ? Infinity : performance.now() + SLICE_MS;
    try {
      while (this.#work.length && performance.now() < end) if (this.#work[0]!.next().done) this.#work.shift();
    } catch (error) {
      this.#work.shift();
      throw error;
    } finally {
      if (this.#work.length) {
        this.#scheduled = true;
        setTimeout(() => this.#run());
      }
    }
  }
}
