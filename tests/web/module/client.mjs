// Drives static/livejoin.js over a fake socket: one command per line on standard input, one JSON line as the answer.
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const sockets = [];
let told = []; // what the server would have received

globalThis.WebSocket = class {
  static OPEN = 1;
  readyState = 0;
  constructor(url, protocol) {
    told.push({ open: url, protocol });
    sockets.push(this);
  }
  send(text) {
    told.push({ send: JSON.parse(text) });
  }
  close() {
    if (this.readyState !== 3) told.push({ close: true });
    this.readyState = 3;
  }
};

let answers = []; // to HTTP requests
globalThis.fetch = async (url, { method, headers, body: sent }) => {
  const message = url.endsWith("/control") ? JSON.parse(sent) : undefined;
  told.push({ fetch: url, method, authorization: headers.authorization, message });
  const { status, body } = answers.shift();
  return { ok: status < 400, status, json: async () => body };
};

const waits = new Map(); // pending time-outs of a second and more, in ms by timer
const { setTimeout: startTimer, clearTimeout: stopTimer } = globalThis;
globalThis.setTimeout = (call, ms = 0) => {
  const timer = startTimer(() => {
    waits.delete(timer);
    call();
  }, ms);
  if (ms >= 1000) waits.set(timer, ms);
  return timer;
};
globalThis.clearTimeout = (timer) => {
  waits.delete(timer);
  stopTimer(timer);
};

let ahead = 0; // of the wall clock, which can be set; performance.now() is not affected
const now = Date.now;
Date.now = () => now() + ahead;

const { connect } = await import(pathToFileURL(process.argv[2]));
let client = connect(process.argv[3]);
let tables = {};
let changes = [];
let asked; // what a request resolved to, or its error
const failures = [];
process.on("uncaughtException", (error) => failures.push(error.message));

const commands = {
  table({ name, throws }) {
    tables[name] = client.table(name);
    tables[name].subscribe(({ table, kind, rows, generation, seq }) => {
      changes.push([table, kind, rows.map(({ _id }) => _id), generation, seq]);
      if (throws) throw new Error(throws);
    });
  },
  drop: ({ name }) => tables[name].close(),
  replace({ name }) {
    tables[name].close();
    commands.table({ name });
  },
  opened() {
    sockets.at(-1).readyState = 1;
    sockets.at(-1).onopen();
  },
  message({ data }) {
    const { buffer, byteOffset, byteLength } = Buffer.from(data, "base64");
    sockets.at(-1).onmessage({ data: buffer.slice(byteOffset, byteOffset + byteLength) });
  },
  lose() {
    sockets.at(-1).readyState = 3;
    sockets.at(-1).onclose();
  },
  async reopened({ count }) {
    while (sockets.length < count) await new Promise((done) => setTimeout(done, 10));
  },
  quit: () => client.close(),
  fresh({ token, gets }) {
    answers = gets ?? [];
    client.close();
    client = connect(process.argv[3], { token });
    tables = {};
  },
  async ask({ gets, method, message }) {
    answers = gets;
    asked = await client[method](message).catch(({ message }) => ({ error: message }));
  },
  look: () => {},
  set({ ms }) {
    ahead += ms;
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line);
  await commands[command.do](command);
  await new Promise((done) => setTimeout(done)); // subscriptions are coalesced, errors are reported later
  const held = Object.fromEntries(Object.entries(tables).map(([name, table]) => [name, table.rows()]));
  const status = Object.values(tables)[0]?.status;
  const timers = process.getActiveResourcesInfo().filter((one) => one === "Timeout").length; // of a retry, of silence
  console.log(JSON.stringify({ told, asked, changes, held, status, failures, timers, waits: [...waits.values()], sockets: sockets.length }));
  told = [];
  changes = [];
}
process.exit(0); // an open client keeps the process alive
