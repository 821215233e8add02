// Runs every case against a server with @grpc/grpc-js: client.mjs --addr HOST:PORT [--server NAME] [--only PREFIX].
//
// One line a case, `PASS name`, `PASS name (what grpc-js does otherwise)` or `FAIL name: why`. All calls share one
// channel, so all of them share one connection.
import { createInterface } from "node:readline/promises";
import { isDeepStrictEqual } from "node:util";
import { service as Health } from "grpc-health-check";
import { Echo, grpc, option, RpcStatus, SERVICE, sleep } from "./echo.mjs";

const OK_TIME = 20_000; // a case that needs them has failed
const OVER_LIMIT = 5 << 20;
const UNICODE = "na\u00efve \u4e2d\u6587 \u{1f680}";

const channel = new grpc.Channel(option("addr"), grpc.credentials.createInsecure(), {});
const through = { channelOverride: channel };
const echo = new Echo("unused", grpc.credentials.createInsecure(), through);
const HealthClient = grpc.makeGenericClientConstructor(Health, "Health");
const health = new HealthClient("unused", grpc.credentials.createInsecure(), through);

function same(want, got, what = "value") {
  if (isDeepStrictEqual(want, got)) return;
  throw new Error(`${what}: want ${JSON.stringify(want)}, got ${JSON.stringify(got)}`.slice(0, 400));
}

/** The error of `promise`, which must have this code, and this message if one is given. */
async function fails(code, promise, message) {
  const got = await promise.then((value) => ({ value }), (error) => ({ error }));
  if (!got.error) throw new Error(`want code ${code}, got a reply ${JSON.stringify(got.value)}`.slice(0, 200));
  same(code, got.error.code, `code (${got.error.details ?? got.error})`);
  if (message !== undefined) same(message, got.error.details, "message");
  return got.error;
}

const within = (ms = OK_TIME) => ({ deadline: Date.now() + ms });

/** A unary call; resolves with the reply, the headers and the trailers. */
function unary(client, method, request, { metadata = new grpc.Metadata(), ...options } = within(), started = () => {}) {
  return new Promise((yes, no) => {
    const got = {};
    const call = client[method](request, metadata, options, (error, reply) => {
      if (error) no(error);
      got.reply = reply;
    });
    call.on("metadata", (headers) => (got.headers = headers));
    call.on("status", (status) => yes({ ...got, trailers: status.metadata }));
    started(call);
  });
}

const say = async (request, options) => (await unary(echo, "Say", request, options)).reply;
const serves = async () => same("echo:after", (await say({ text: "after" })).text);

async function payload(size) {
  const sent = Buffer.from({ length: size }, (_, i) => (i % 251) * 31);
  const { payload } = await say({ payload: sent });
  if (!sent.equals(payload)) throw new Error(`a payload of ${size} bytes came back changed`);
}

/** All replies of a stream, and its error. */
function all(call) {
  return new Promise((yes) => {
    const got = [];
    let error;
    call.on("data", (reply) => got.push(reply));
    call.on("error", (failed) => (error = failed));
    call.on("status", () => setImmediate(() => yes({ got, error })));
  });
}

const expand = (request, options = within()) => all(echo.Expand(request, options));

/** As `fails`, of a stream. */
const failed = async (code, stream, message) => fails(code, Promise.reject((await stream).error), message);

function collect(requests) {
  return new Promise((yes, no) => {
    const call = echo.Collect(within(), (error, reply) => (error ? no(error) : yes(reply)));
    for (const request of requests) call.write(request);
    call.end();
  });
}

/** A bidi call: `next` is the next reply, `end` half-closes and resolves with what is left. */
function chat(options = within(), metadata = new grpc.Metadata()) {
  const call = echo.Chat(metadata, options);
  const replies = call[Symbol.asyncIterator]();
  const next = async () => {
    const { value, done } = await replies.next();
    if (done) throw new Error("the stream ended");
    return value;
  };
  const exchange = async (request) => {
    call.write(request);
    const reply = await next();
    same(["echo:" + request.text, request.payload?.length ?? 0], [reply.text, reply.payload.length], "reply");
  };
  const end = async () => {
    call.end();
    same(true, (await replies.next()).done, "the end after half-close");
  };
  return { call, next, exchange, end };
}

/** Each value list is seen by the handler and returns in headers and trailers, in order. */
async function comesBack(values) {
  const metadata = new grpc.Metadata();
  for (const [name, list] of Object.entries(values)) for (const value of list) metadata.add(`x-echo-${name}`, value);
  const { reply, headers, trailers } = await unary(echo, "Meta", {}, { metadata, ...within() });
  let note;
  for (const [name, list] of Object.entries(values)) {
    const entry = reply.seen.find(({ key }) => key === `x-echo-${name}`);
    same(list, name.endsWith("-bin") ? entry?.binValues : entry?.values, `seen x-echo-${name}`);
    let want = list;
    if (!name.endsWith("-bin") && list.length > 1) {
      want = [list.join(", ")];
      note = "Node joins the values of a repeated key by commas";
    }
    same(want, headers.get(`x-head-${name}`), `header x-head-${name}`);
    same(want, trailers.get(`x-trail-${name}`), `trailer x-trail-${name}`);
  }
  return note;
}

const unknown = (path) => new Promise((yes, no) => {
  const raw = (bytes) => bytes;
  echo.makeUnaryRequest(path, raw, raw, Buffer.alloc(0), new grpc.Metadata(), within(), (e, r) => (e ? no(e) : yes(r)));
});

const gzip = new Echo(option("addr"), grpc.credentials.createInsecure(), { "grpc.default_compression_algorithm": 2 });

/** Asks whoever runs this for something, and waits for a line on standard input. */
const ask = async (what) => {
  console.log(what);
  const input = createInterface({ input: process.stdin });
  const { done } = await input[Symbol.asyncIterator]().next();
  input.close();
  same(false, done, `nobody answered \`${what}\` on standard input`);
};

const cases = {
  async "unary"() {
    const reply = await say({ text: "hello", payload: Buffer.from([0, 1, 255]), sequenceId: -7 });
    same({ text: "echo:hello", payload: Buffer.from([0, 1, 255]), sequenceId: -7 }, reply);
  },
  async "message-of-0-bytes"() {
    same("echo:", (await say({})).text);
    same({ text: "", payload: Buffer.alloc(0), sequenceId: 0 }, (await unary(echo, "Fail", {})).reply);
  },
  "message-of-1-byte": () => payload(1),
  "message-of-64-kib": () => payload(64 << 10),
  "message-of-3900000-bytes": () => payload(3_900_000),
  async "request-over-limit"() {
    await fails(8, say({ payload: Buffer.alloc(OVER_LIMIT), replySize: 1 }));
    await serves();
  },
  async "reply-over-limit"() {
    await fails(8, say({ replySize: OVER_LIMIT }));
    await serves();
  },
  async "client-stream"() {
    const reply = await collect(["a", "b", "c"].map((text) => ({ text, payload: Buffer.from("xy") })));
    same({ count: 3, payloadBytes: 6, texts: "a,b,c" }, reply);
  },
  "client-stream-of-none": async () => same(0, (await collect([])).count),
  async "client-stream-of-1000"() {
    const { count, payloadBytes } = await collect(Array(1000).fill({ payload: Buffer.alloc(1000) }));
    same([1000, 1_000_000], [count, payloadBytes]);
  },
  async "server-stream"() {
    const { got, error } = await expand({ count: 3, size: 4 });
    same(undefined, error?.details);
    same([["expand:0", 0, 4], ["expand:1", 1, 4], ["expand:2", 2, 4]], got.map((r) => [r.text, r.sequenceId, r.payload.length]));
  },
  "server-stream-of-none": async () => same({ got: [], error: undefined }, await expand({})),
  async "server-stream-of-1000"() {
    const { got } = await expand({ count: 1000, size: 1000 });
    same([...Array(1000).keys()], got.map((reply) => reply.sequenceId));
  },
  async "server-stream-error-after-two"() {
    const stream = await expand({ count: 2, endCode: 5, endMessage: "gone" });
    same(2, stream.got.length, "messages before the error");
    await failed(5, stream, "gone");
  },
  "server-stream-error-at-once": async () => void await failed(7, expand({ endCode: 7, endMessage: "no" }), "no"),
  async "bidi-ping-pong"() {
    const { exchange, end } = chat();
    for (let i = 0; i < 50; i++) await exchange({ text: String(i) });
    await end();
  },
  async "bidi-error-midway"() {
    const { call, next, exchange } = chat();
    await exchange({ text: "ok" });
    call.write({ text: "fail:enough" });
    await fails(9, next(), "enough");
  },
  async "status-codes"() {
    for (let code = 1; code <= 16; code++) {
      await fails(code, unary(echo, "Fail", { code, message: "as asked" }), "as asked");
    }
  },
  async "status-messages"() {
    for (const message of ["", "100% a+b & c=d %zz %41", UNICODE, "line1\nline2\ttab\r\nend"]) {
      // decodeURI leaves the escapes of reserved characters alone, and the whole text if one is no escape.
      await fails(5, unary(echo, "Fail", { code: 5, message }), message);
    }
  },
  async "status-details"() {
    const type = RpcStatus.lookupType("FailDetail");
    const details = [1, 2].map((number) => ({
      type_url: "type.googleapis.com/trirpc.test.v1.FailDetail",
      value: Buffer.from(type.encode({ reason: "reason", number }).finish()),
    }));
    const error = await fails(9, unary(echo, "Fail", { code: 9, message: "with details", details }), "with details");
    const status = RpcStatus.lookupType("Status").decode(error.metadata.get("grpc-status-details-bin")[0]);
    same([9, "with details"], [status.code, status.message]);
    same([["reason", 1], ["reason", 2]], status.details.map(({ value }) => {
      const { reason, number } = type.decode(value);
      return [reason, number];
    }));
  },
  async "deadline-of-unary"() {
    const start = performance.now();
    await fails(4, unary(echo, "Sleep", { millis: 5000 }, within(300)));
    const took = performance.now() - start;
    same(true, took > 250 && took < 2000, "ended at its deadline");
    await serves();
  },
  async "deadline-of-stream"() {
    const stream = await expand({ count: 1000, intervalMs: 100 }, within(500));
    await failed(4, stream);
    same(true, stream.got.length >= 1 && stream.got.length < 10, "replies within the deadline");
  },
  "deadline-met": async () => same("slept", (await unary(echo, "Sleep", { millis: 50 })).reply.text),
  async "cancel-unary"() {
    await fails(1, unary(echo, "Sleep", { millis: 5000 }, within(), (call) => setTimeout(() => call.cancel(), 200)));
    await serves();
  },
  async "cancel-server-stream"() {
    const call = echo.Expand({ count: 1000, size: 10_000, intervalMs: 1 }, within());
    const stream = all(call);
    call.once("data", () => call.cancel());
    await failed(1, stream);
    await serves();
  },
  async "cancel-bidi"() {
    const { call, next, exchange } = chat();
    await exchange({ text: "one" });
    call.cancel();
    await fails(1, next());
    await serves();
  },
  "metadata-text": () => comesBack({
    a: ["one", "two", "one"],
    comma: ["v,w", "x"],
    symbols: ["!#$%&'()*+-./:;<=>?@[]^_`{|}~"],
  }),
  "metadata-binary": () => comesBack({
    "b-bin": [Buffer.from([0, 1, 255, 62]), Buffer.from("second"), Buffer.from([...Array(256).keys()])],
    "one-bin": [Buffer.from([0x80])],
  }),
  "metadata-empty-values": () => comesBack({
    none: [""],
    "none-bin": [Buffer.alloc(0)],
    "mixed-bin": [Buffer.alloc(0), Buffer.from("x"), Buffer.alloc(0)],
  }),
  "metadata-of-7-kib": () => comesBack({ long: ["v".repeat(2300)] }),
  async "metadata-non-ascii"() {
    let refused;
    try {
      new grpc.Metadata().add("x-echo-latin", "na\u00efve");
    } catch (error) {
      refused = error.message;
    }
    same('Metadata string value "na\u00efve" contains illegal characters', refused);
    return "refused by the client itself: not printable ASCII";
  },
  "unknown-method": async () => void await fails(12, unknown(`/${SERVICE}/NoSuch`)),
  "unknown-service": async () => void await fails(12, unknown("/no.such.Service/Method")),
  async "health-check"() {
    for (const service of ["", SERVICE]) same("SERVING", (await unary(health, "Check", { service })).reply.status);
    await fails(5, unary(health, "Check", { service: "nobody" }));
  },
  async "health-watch"() {
    const call = health.Watch({ service: SERVICE }, within());
    const stream = all(call);
    call.once("data", () => call.cancel());
    same("SERVING", (await stream).got[0]?.status);
  },
  async "calls-1000-at-100"() {
    await Promise.all([...Array(100).keys()].map(async (worker) => {
      for (let call = 0; call < 10; call++) {
        const text = String(worker * 10 + call);
        same("echo:" + text, (await say({ text, payload: Buffer.alloc(128) })).text);
      }
    }));
  },
  /** A payload of zeros each way; the run measures that few bytes pass. grpc-js compresses by channel, not by call. */
  async "gzip-unary"() {
    await ask("measure");
    const sent = Buffer.alloc(1 << 20);
    same(true, sent.equals((await unary(gzip, "Say", { payload: sent })).reply.payload), "payload");
  },
  async "gzip-stream"() {
    await ask("measure");
    const call = gzip.Chat(within());
    const stream = all(call);
    const sizes = [256 << 10, 0, 1, 256 << 10];
    for (const size of sizes) call.write({ payload: Buffer.alloc(size) });
    call.end();
    const { got, error } = await stream;
    same(undefined, error?.details);
    same(sizes, got.map((reply) => reply.payload.length));
  },
  /** Whoever runs this kills the server and starts another. */
  async "server-restart"() {
    await serves();
    await ask("restart");
    for (;;) {
      const error = await say({ text: "again" }).then(() => undefined, (error) => error);
      if (!error) break;
      same(14, error.code, error.details);
      await sleep(20);
    }
    await serves();
  },
};

for (const [name, body] of Object.entries(cases)) {
  if (!name.startsWith(option("only", ""))) continue;
  const late = new Promise((_, no) => setTimeout(no, 30_000, new Error("still running after 30 s")).unref());
  try {
    const note = await Promise.race([body(), late]);
    console.log(note ? `PASS ${name} (${note})` : `PASS ${name}`);
  } catch (error) {
    process.exitCode = 1;
    console.log(`FAIL ${name}: ${String(error?.message ?? error).replaceAll("\n", " ")}`);
  }
}
process.exit();
