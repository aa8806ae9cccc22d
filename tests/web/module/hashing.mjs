// Applies the parts on standard input, a JSON list of [kind, base64] per line, and prints row count and hash.
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const { TableHash } = await import(pathToFileURL(process.argv[2]));

for await (const line of createInterface({ input: process.stdin })) {
  const table = new TableHash();
  let pauses = 0;
  for (const [kind, data] of JSON.parse(line)) {
    const { buffer, byteOffset, byteLength } = Buffer.from(data, "base64");
    for (const _ of table.apply(kind, buffer.slice(byteOffset, byteOffset + byteLength))) pauses += 1;
  }
  console.log(JSON.stringify({ rows: table.rows, hash: table.hex, pauses }));
}
