/**
 * Reader for Arrow IPC streams of the types that livejoin uses: utf8, int64, float64, bool, timestamp[ms] and
 * decimal128. Anything else (dictionaries, compression, nested types) is an error. Independent of livejoin.
 *
 * A stream is a sequence of messages: 0xFFFFFFFF, metadata length, metadata (a FlatBuffer padded to 8 bytes), body.
 * The first message is the schema, the others are record batches. A length of 0, or the end of the bytes, ends it.
 */
const CONTINUATION = 0xffffffff;
const HEADER = { schema: 1, batch: 3 }; // values of the union MessageHeader
// by value of the union Type
const TYPE_NAMES = ["", "null", "int", "float", "binary", "utf8", "bool", "decimal", "date", "time", "timestamp"];
const DOUBLE = 2; // value of the enum Precision
const MILLISECOND = 1; // value of the enum TimeUnit
const DECIMAL_BYTES = 16;
const utf8 = new TextDecoder("utf-8", { ignoreBOM: true }); // a cell may start with U+FEFF
/** A FlatBuffers table. Its vtable holds the offset of each field, 0 if the field is absent. */
class FlatTable {
    view;
    at;
    vtable;
    constructor(view, at) {
        this.view = view;
        this.at = at;
        this.vtable = at - view.getInt32(at, true);
    }
    /** Position of a field, 0 if absent. */
    position(field) {
        const slot = 4 + 2 * field; // the first 4 bytes are the sizes of vtable and table
        const offset = slot < this.view.getUint16(this.vtable, true) ? this.view.getUint16(this.vtable + slot, true) : 0;
        return offset && this.at + offset;
    }
    /** Position that an offset field points to, 0 if absent. */
    target(field) {
        const at = this.position(field);
        return at && at + this.view.getUint32(at, true);
    }
    table(field) {
        const at = this.target(field);
        if (!at)
            throw new Error(`Arrow metadata lacks field ${field}`);
        return new FlatTable(this.view, at);
    }
    byte(field) {
        const at = this.position(field);
        return at && this.view.getUint8(at);
    }
    short(field) {
        const at = this.position(field);
        return at && this.view.getInt16(at, true);
    }
    int(field) {
        const at = this.position(field);
        return at && this.view.getInt32(at, true);
    }
    long(field) {
        const at = this.position(field);
        return at && long(this.view, at);
    }
    string(field) {
        const at = this.target(field);
        if (!at)
            return "";
        return utf8.decode(bytes(this.view, at + 4, this.view.getUint32(at, true)));
    }
    /** Positions of a vector's elements of `size` bytes each. */
    vector(field, size) {
        const at = this.target(field);
        const count = at && this.view.getUint32(at, true);
        return Array.from({ length: count }, (_, i) => at + 4 + i * size);
    }
}
/**
 * Decode all cells. An int64 beyond the safe integers becomes a BigInt; timestamps are ms since 1970 UTC; a decimal is
 * its text, with all places.
 */
export function readArrow(data) {
    const { view, fields, batches } = readArrowStream(data);
    const columns = fields.map(() => []);
    for (const batch of batches) {
        for (const [i, column] of batch.columns.entries()) {
            const [cell, valid] = [cellReader(view, column, batch.length), validityReader(view, column)];
            for (let row = 0; row < batch.length; row++)
                columns[i].push(valid(row) ? cell(row) : null);
        }
    }
    return { fields, columns, length: batches.reduce((sum, { length }) => sum + length, 0) };
}
/** Parse a stream into batches without decoding the cells. */
export function readArrowStream(data) {
    const view = ArrayBuffer.isView(data)
        ? new DataView(data.buffer, data.byteOffset, data.byteLength)
        : new DataView(data);
    let fields = null;
    const batches = [];
    for (let at = 0; at + 8 <= view.byteLength;) {
        if (view.getUint32(at, true) !== CONTINUATION)
            throw new Error("not an Arrow IPC stream");
        const size = view.getInt32(at + 4, true);
        if (size === 0)
            break;
        const metadata = new DataView(view.buffer, view.byteOffset + at + 8, size);
        const message = new FlatTable(metadata, metadata.getUint32(0, true));
        const kind = message.byte(1);
        const body = at + 8 + size;
        at = body + message.long(3);
        if (kind === HEADER.schema) {
            fields = readFields(message.table(2));
        }
        else if (kind === HEADER.batch && fields) {
            batches.push(readBatch(message.table(2), body, fields));
        }
        else {
            throw new Error(`unsupported Arrow message type ${kind}`);
        }
    }
    if (!fields)
        throw new Error("Arrow stream has no schema");
    return { view, fields, batches };
}
function readFields(schema) {
    if (schema.short(0))
        throw new Error("big-endian Arrow data is not supported");
    return schema.vector(1, 4).map((at) => {
        const field = new FlatTable(schema.view, at + schema.view.getUint32(at, true));
        const name = field.string(0);
        if (field.position(4))
            throw new Error(`column ${name} is dictionary-encoded, which is not supported`);
        return { name, type: typeOf(field, name) };
    });
}
function typeOf(field, name) {
    const kind = TYPE_NAMES[field.byte(2)] ?? "unknown";
    const type = field.table(3);
    if (kind === "utf8")
        return "string";
    if (kind === "int" && type.int(0) === 64 && type.byte(1))
        return "int64";
    if (kind === "float" && type.short(0) === DOUBLE)
        return "double";
    if (kind === "timestamp" && type.short(0) === MILLISECOND)
        return "timestamp";
    if (kind === "bool")
        return "boolean";
    if (kind === "decimal" && (type.int(2) || 128) === 8 * DECIMAL_BYTES)
        return `decimal(${type.int(0)},${type.int(1)})`;
    throw new Error(`column ${name} has an unsupported type: ${kind}`);
}
/** `body` is the position of the batch's buffers. */
function readBatch(batch, body, fields) {
    if (batch.position(3))
        throw new Error("compressed Arrow data is not supported");
    const nodes = batch.vector(1, 16).map((at) => ({ nulls: long(batch.view, at + 8) }));
    const buffers = batch
        .vector(2, 16)
        .map((at) => ({ at: body + long(batch.view, at), size: long(batch.view, at + 8) }));
    let next = 0;
    const buffer = () => {
        const found = buffers[next++];
        if (!found)
            throw new Error("Arrow record batch lacks a buffer");
        return found;
    };
    const columns = fields.map(({ type }, i) => {
        const validity = buffer();
        const offsets = type === "string" ? buffer() : null;
        return { type, validity: nodes[i]?.nulls && validity.size ? validity : null, offsets, data: buffer() };
    });
    return { length: batch.long(0), columns };
}
/** Function that tells whether the cell of a row is not null. */
function validityReader(view, { validity }) {
    if (!validity)
        return () => true;
    return (row) => bit(view, validity, row);
}
/** Function that decodes the cell of a row; call it for cells that are not null. */
export function cellReader(view, column, count) {
    const { type, offsets, data } = column;
    if (offsets)
        return stringReader(view, offsets, data, count);
    if (type === "boolean")
        return (row) => bit(view, data, row);
    return isDecimal(type) ? decimalReader(view, data, placesOf(type)) : numberReader(view, data, type);
}
export const isDecimal = (type) => type.startsWith("decimal");
/** Bytes of a cell that is neither a string nor a boolean. */
export const cellBytes = (type) => (isDecimal(type) ? DECIMAL_BYTES : 8);
/** A bit of a bitmap, the least significant one of each byte first. */
export const bit = (view, { at }, row) => Boolean((view.getUint8(at + (row >> 3)) >> (row & 7)) & 1);
/** Digits after the point. */
const placesOf = (type) => Number(type.slice(type.indexOf(",") + 1, -1));
function decimalReader(view, { at }, places) {
    return (row) => {
        const start = at + DECIMAL_BYTES * row;
        const digits = (view.getBigInt64(start + 8, true) << 64n) | view.getBigUint64(start, true);
        return decimalText(digits, places);
    };
}
/** `1.50` of 150 with two places. */
function decimalText(digits, places) {
    const sign = digits < 0n ? "-" : "";
    const text = String(digits < 0n ? -digits : digits).padStart(places + 1, "0");
    const whole = text.length - places;
    return sign + (places ? `${text.slice(0, whole)}.${text.slice(whole)}` : text);
}
function stringReader(view, offsets, data, count) {
    if (!count)
        return () => null;
    const start = (row) => view.getInt32(offsets.at + 4 * row, true);
    const base = start(0);
    const size = start(count) - base;
    const all = utf8.decode(bytes(view, data.at + base, size));
    // all ASCII: slicing one string costs a tenth of decoding each cell
    if (all.length === size)
        return (row) => all.slice(start(row) - base, start(row + 1) - base);
    return (row) => utf8.decode(bytes(view, data.at + start(row), start(row + 1) - start(row)));
}
function numberReader(view, { at }, type) {
    if (type === "double")
        return (row) => view.getFloat64(at + 8 * row, true);
    return (row) => {
        const number = long(view, at + 8 * row);
        return Number.isSafeInteger(number) ? number : view.getBigInt64(at + 8 * row, true);
    };
}
/** Little-endian int64, exact within the safe integers. */
function long(view, at) {
    return view.getInt32(at + 4, true) * 0x1_0000_0000 + view.getUint32(at, true);
}
function bytes(view, at, size) {
    return new Uint8Array(view.buffer, view.byteOffset + at, size);
}
