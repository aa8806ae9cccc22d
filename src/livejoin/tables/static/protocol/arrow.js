/**
 * Reads an Arrow IPC stream of the four types that livejoin uses: utf8, int64, float64 and timestamp in ms.
 * Dictionaries, compression and nested types are refused by name. Knows nothing of livejoin.
 * A stream is a row of messages: 0xFFFFFFFF, the length of the metadata, the metadata (a FlatBuffer, padded to
 * 8 bytes), the body. The first is the schema, the others are record batches; a length of 0, or no more bytes, ends it.
 */
const CONTINUES = 0xffffffff;
const HEADER = { schema: 1, batch: 3 }; // of the union MessageHeader
const NAMES = ["", "null", "int", "float", "binary", "utf8", "bool", "decimal", "date", "time", "timestamp"]; // of Type
const DOUBLE = 2; // of Precision
const MILLISECOND = 1; // of TimeUnit
const utf8 = new TextDecoder("utf-8", { ignoreBOM: true }); // a cell may begin with one
/** A FlatBuffers table: it points back to its vtable, which tells where each field stands, or 0 for one that is absent. */
class Flat {
    view;
    at;
    vtable;
    constructor(view, at) {
        this.view = view;
        this.at = at;
        this.vtable = at - view.getInt32(at, true);
    }
    /** Where a field stands, or 0. */
    find(field) {
        const slot = 4 + 2 * field; // after the sizes of the vtable and of the table
        const offset = slot < this.view.getUint16(this.vtable, true) ? this.view.getUint16(this.vtable + slot, true) : 0;
        return offset && this.at + offset;
    }
    /** Where that stands which is kept elsewhere (the field is its offset from here), or 0. */
    follow(field) {
        const at = this.find(field);
        return at && at + this.view.getUint32(at, true);
    }
    table(field) {
        const at = this.follow(field);
        if (!at)
            throw new Error(`Arrow metadata lacks field ${field}`);
        return new Flat(this.view, at);
    }
    byte(field) {
        const at = this.find(field);
        return at && this.view.getUint8(at);
    }
    short(field) {
        const at = this.find(field);
        return at && this.view.getInt16(at, true);
    }
    int(field) {
        const at = this.find(field);
        return at && this.view.getInt32(at, true);
    }
    long(field) {
        const at = this.find(field);
        return at && long(this.view, at);
    }
    string(field) {
        const at = this.follow(field);
        if (!at)
            return "";
        return utf8.decode(bytes(this.view, at + 4, this.view.getUint32(at, true)));
    }
    /** Where each element of a vector stands; `size` is that of an element. */
    vector(field, size) {
        const at = this.follow(field);
        const count = at && this.view.getUint32(at, true);
        return Array.from({ length: count }, (_, i) => at + 4 + i * size);
    }
}
/** Whole numbers are numbers where those are exact, else BigInts; timestamps are ms since 1970 UTC. */
export function readArrow(data) {
    const { view, fields, batches } = readStream(data);
    const columns = fields.map(() => []);
    for (const batch of batches) {
        for (const [i, column] of batch.columns.entries()) {
            const [cell, valid] = [reader(view, column, batch.length), validity(view, column)];
            for (let row = 0; row < batch.length; row++)
                columns[i].push(valid(row) ? cell(row) : null);
        }
    }
    return { fields, columns, length: batches.reduce((sum, { length }) => sum + length, 0) };
}
/** The batches of a stream, with their cells left as bytes. */
export function readStream(data) {
    const view = ArrayBuffer.isView(data)
        ? new DataView(data.buffer, data.byteOffset, data.byteLength)
        : new DataView(data);
    let fields = null;
    const batches = [];
    for (let at = 0; at + 8 <= view.byteLength;) {
        if (view.getUint32(at, true) !== CONTINUES)
            throw new Error("not an Arrow stream");
        const size = view.getInt32(at + 4, true);
        if (size === 0)
            break;
        const metadata = new DataView(view.buffer, view.byteOffset + at + 8, size);
        const message = new Flat(metadata, metadata.getUint32(0, true));
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
            throw new Error(`an Arrow message of kind ${kind} is not understood`);
        }
    }
    if (!fields)
        throw new Error("an Arrow stream without a schema");
    return { view, fields, batches };
}
function readFields(schema) {
    if (schema.short(0))
        throw new Error("big-endian Arrow is not understood");
    return schema.vector(1, 4).map((at) => {
        const field = new Flat(schema.view, at + schema.view.getUint32(at, true));
        const name = field.string(0);
        if (field.find(4))
            throw new Error(`column ${name} has a dictionary`);
        return { name, type: typeOf(field, name) };
    });
}
function typeOf(field, name) {
    const kind = NAMES[field.byte(2)] ?? "unknown";
    const type = field.table(3);
    if (kind === "utf8")
        return "string";
    if (kind === "int" && type.int(0) === 64 && type.byte(1))
        return "int64";
    if (kind === "float" && type.short(0) === DOUBLE)
        return "double";
    if (kind === "timestamp" && type.short(0) === MILLISECOND)
        return "timestamp";
    throw new Error(`column ${name} is of a type that is not understood: ${kind}`);
}
/** A batch whose buffers begin at `body`. */
function readBatch(batch, body, fields) {
    if (batch.find(3))
        throw new Error("compressed Arrow is not understood");
    const nodes = batch.vector(1, 16).map((at) => ({ nulls: long(batch.view, at + 8) }));
    const buffers = batch
        .vector(2, 16)
        .map((at) => ({ at: body + long(batch.view, at), size: long(batch.view, at + 8) }));
    let next = 0;
    const buffer = () => {
        const found = buffers[next++];
        if (!found)
            throw new Error("an Arrow batch lacks a buffer");
        return found;
    };
    const columns = fields.map(({ type }, i) => {
        const validity = buffer();
        const offsets = type === "string" ? buffer() : null;
        return { type, validity: nodes[i]?.nulls && validity.size ? validity : null, offsets, data: buffer() };
    });
    return { length: batch.long(0), columns };
}
/** Whether a cell is not null, row by row. */
export function validity(view, { validity }) {
    if (!validity)
        return () => true;
    return (row) => Boolean((view.getUint8(validity.at + (row >> 3)) >> (row & 7)) & 1);
}
/** What a cell that is not null holds, row by row. */
export function reader(view, { type, offsets, data }, count) {
    return offsets ? strings(view, offsets, data, count) : numbers(view, data, type);
}
function strings(view, offsets, data, count) {
    if (!count)
        return () => null;
    const start = (row) => view.getInt32(offsets.at + 4 * row, true);
    const base = start(0);
    const size = start(count) - base;
    const all = utf8.decode(bytes(view, data.at + base, size));
    // as many characters as bytes: each is one, and cutting a string costs a tenth of decoding its cells
    if (all.length === size)
        return (row) => all.slice(start(row) - base, start(row + 1) - base);
    return (row) => utf8.decode(bytes(view, data.at + start(row), start(row + 1) - start(row)));
}
function numbers(view, { at }, type) {
    if (type === "double")
        return (row) => view.getFloat64(at + 8 * row, true);
    return (row) => {
        const number = long(view, at + 8 * row);
        return Number.isSafeInteger(number) ? number : view.getBigInt64(at + 8 * row, true);
    };
}
/** Exact if it is a safe integer. */
function long(view, at) {
    return view.getInt32(at + 4, true) * 0x1_0000_0000 + view.getUint32(at, true);
}
function bytes(view, at, size) {
    return new Uint8Array(view.buffer, view.byteOffset + at, size);
}
