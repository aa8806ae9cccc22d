// Decodes Arrow streams from standard input, one base64 line each, and prints each as a JSON line.
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const { readArrow } = await import(pathToFileURL(process.argv[2]));
/** JSON has neither BigInt nor every double. */
const plain = (cell, type) => {
  if (cell === null || type === "string") return cell;
  if (type !== "double") return typeof cell === "bigint" ? { bigint: String(cell) } : cell;
  if (Number.isNaN(cell)) return "NaN";
  const bytes = Buffer.alloc(8);
  bytes.writeDoubleBE(cell);
  return bytes.toString("hex");
};

for await (const line of createInterface({ input: process.stdin })) {
  try {
    // unaligned and inside a larger buffer, as in a frame
    const stream = Buffer.from(line, "base64");
    const room = new Uint8Array(stream.length + 7);
    room.set(stream, 3);
    const { fields, columns, length } = readArrow(room.subarray(3, 3 + stream.length));
    const names = fields.map(({ name, type }) => [name, type]);
    const found = { fields: names, columns: columns.map((c, i) => c.map((cell) => plain(cell, fields[i].type))), length };
    console.log(JSON.stringify(found));
  } catch (error) {
    console.log(JSON.stringify({ error: error.message }));
  }
}
