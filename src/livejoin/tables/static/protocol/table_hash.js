/**
 * Order-independent hash of a table's rows, as the live protocol defines it (docs/live-protocol.md#hashes).
 * Computed from the bytes of the Arrow streams, so that int64 and double values are never rounded.
 * A 64-bit number is held as two 32-bit halves, `high` and `low`: with BigInt, 100,000 rows take seconds.
 */
import { bit, cellBytes, cellReader, readArrowStream } from "./arrow.js";
const BASE_LOW = 0x1b3; // BASE is 2^40 plus this
const ODD = { high: 0x9e3779b9, low: 0x7f4a7c15 };
const ROWS_PER_SLICE = 256; // rows between two yields
const WORD = 0x1_0000_0000;
const BOOLEANS = Uint8Array.of(0, 1); // the byte of a false cell, and that of a true one
// Accumulator of the functions below: returning both halves would allocate an object per call.
let high = 0;
let low = 0;
/** Multiply the accumulator, modulo 2^64. */
function multiply(otherHigh, otherLow) {
    const a = low >>> 16; // 16-bit halves: no product exceeds 32 bits
    const b = low & 0xffff;
    const c = otherLow >>> 16;
    const d = otherLow & 0xffff;
    const first = a * d + ((b * d) >>> 16);
    const second = b * c + (first & 0xffff);
    const carry = a * c + (first >>> 16) + (second >>> 16);
    high = (carry + Math.imul(high, otherLow) + Math.imul(low, otherHigh)) >>> 0;
    low = Math.imul(low, otherLow) >>> 0;
}
/** The finaliser of splitmix64. */
function mix() {
    low = (low ^ ((low >>> 30) | (high << 2))) >>> 0;
    high = (high ^ (high >>> 30)) >>> 0;
    multiply(0xbf58476d, 0x1ce4e5b9);
    low = (low ^ ((low >>> 27) | (high << 5))) >>> 0;
    high = (high ^ (high >>> 27)) >>> 0;
    multiply(0x94d049bb, 0x133111eb);
    low = (low ^ ((low >>> 31) | (high << 1))) >>> 0;
    high = (high ^ (high >>> 31)) >>> 0;
}
/** Add to the accumulator, modulo 2^64. */
function add(otherHigh, otherLow) {
    const sum = low + otherLow;
    high = (high + otherHigh + (sum >= WORD ? 1 : 0)) >>> 0;
    low = sum >>> 0;
}
/** Add `times` times ODD. */
function addOdd(times) {
    const before = { high, low };
    high = 0;
    low = times;
    multiply(ODD.high, ODD.low);
    add(before.high, before.low);
}
/** Set the accumulator to the hash of a cell that is not null. */
function hashBytes(bytes, from, to) {
    let above = 0;
    let below = 0;
    for (let k = to - 1; k >= from; k--) {
        const first = (below & 0xffff) * BASE_LOW + bytes[k];
        const second = (below >>> 16) * BASE_LOW + (first >>> 16);
        above = (Math.imul(above, BASE_LOW) + (below << 8) + (second >>> 16)) | 0;
        below = (second << 16) | (first & 0xffff);
    }
    high = above >>> 0;
    low = below >>> 0;
    addOdd(to - from + 1);
    mix();
}
/** Write the row hashes of a batch into `into`, as (high, low) pairs. Yields between slices. */
function* hashRows(view, { length, columns }, into) {
    const bytes = new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
    for (let from = 0; from < length; from += ROWS_PER_SLICE) {
        const to = Math.min(from + ROWS_PER_SLICE, length);
        for (const [c, column] of columns.entries()) {
            addCells(view, bytes, column, c + 1, from, to, into);
        }
        for (let row = from; row < to; row++) {
            high = into[2 * row];
            low = into[2 * row + 1];
            mix();
            into[2 * row] = high;
            into[2 * row + 1] = low;
        }
        yield;
    }
}
/** Add a column's cell hashes to the row hashes. */
function addCells(view, bytes, column, place, from, to, into) {
    const { type, validity, offsets, data } = column;
    const size = cellBytes(type);
    for (let row = from; row < to; row++) {
        high = low = 0;
        const valid = !validity || (bytes[validity.at + (row >> 3)] >> (row & 7)) & 1;
        if (valid && offsets) {
            const at = offsets.at + 4 * row;
            hashBytes(bytes, data.at + view.getInt32(at, true), data.at + view.getInt32(at + 4, true));
        }
        else if (valid && type === "boolean") {
            const byte = bit(view, data, row) ? 1 : 0;
            hashBytes(BOOLEANS, byte, byte + 1);
        }
        else if (valid) {
            hashBytes(bytes, data.at + size * row, data.at + size * (row + 1));
        }
        addOdd(place);
        mix();
        add(into[2 * row], into[2 * row + 1]);
        into[2 * row] = high;
        into[2 * row + 1] = low;
    }
}
/** Row count and hash of one table, maintained from the same parts as the table itself. */
export class TableHash {
    #slots = new Map(); // by row id: position of the row's hash
    #free = [];
    #hashes = new Uint32Array(128);
    #high = 0;
    #low = 0;
    get rows() {
        return this.#slots.size;
    }
    /** 16 hexadecimal digits. */
    get hex() {
        return [this.#high, this.#low].map((half) => half.toString(16).padStart(8, "0")).join("");
    }
    /** Apply a part. Yields between slices; `rows` and `hex` are valid once it has finished. */
    *apply(kind, payload) {
        if (kind === "snapshot")
            this.#clear();
        const { view, fields, batches } = readArrowStream(payload);
        const place = fields.findIndex(({ name }) => name === "_id");
        for (const batch of batches) {
            const id = cellReader(view, batch.columns[place], batch.length);
            const hashes = new Uint32Array(2 * batch.length);
            if (kind !== "remove")
                yield* hashRows(view, batch, hashes);
            for (let row = 0; row < batch.length; row++) {
                const rowId = id(row);
                if (kind === "remove")
                    this.#remove(rowId);
                else
                    this.#put(rowId, hashes[2 * row], hashes[2 * row + 1]);
                if (row % ROWS_PER_SLICE === ROWS_PER_SLICE - 1)
                    yield;
            }
        }
    }
    #clear() {
        this.#slots = new Map();
        this.#free = [];
        this.#hashes = new Uint32Array(128);
        this.#high = this.#low = 0;
    }
    #put(id, rowHigh, rowLow) {
        const known = this.#slots.get(id);
        const slot = known ?? this.#free.pop() ?? this.#slots.size;
        if (known === undefined)
            this.#slots.set(id, slot);
        else
            this.#subtract(slot);
        if (2 * slot >= this.#hashes.length) {
            const larger = new Uint32Array(2 * this.#hashes.length);
            larger.set(this.#hashes);
            this.#hashes = larger;
        }
        this.#hashes[2 * slot] = rowHigh;
        this.#hashes[2 * slot + 1] = rowLow;
        const sum = this.#low + rowLow;
        this.#high = (this.#high + rowHigh + (sum >= WORD ? 1 : 0)) >>> 0;
        this.#low = sum >>> 0;
    }
    #remove(id) {
        const slot = this.#slots.get(id);
        if (slot === undefined)
            return;
        this.#subtract(slot);
        this.#slots.delete(id);
        this.#free.push(slot);
    }
    #subtract(slot) {
        const rest = this.#low - this.#hashes[2 * slot + 1];
        this.#high = (this.#high - this.#hashes[2 * slot] - (rest < 0 ? 1 : 0)) >>> 0;
        this.#low = rest >>> 0;
    }
}
