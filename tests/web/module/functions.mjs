// Calls functions: a JSON list [module, function, arguments] per line of standard input. Prints what each returns.
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

for await (const line of createInterface({ input: process.stdin })) {
  const [module, name, given] = JSON.parse(line);
  const found = await import(new URL(module, pathToFileURL(`${process.argv[2]}/`)));
  console.log(JSON.stringify(found[name](...given) ?? null));
}
