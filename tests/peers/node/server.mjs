// The Echo service and gRPC health on @grpc/grpc-js: server.mjs [--addr HOST:PORT]. The rules of each method are in
// echo.proto.
import { HealthImplementation } from "grpc-health-check";
import { Echo, grpc, option, RpcStatus, SERVICE, sleep } from "./echo.mjs";

const reply = (q) => ({
  text: "echo:" + q.text,
  payload: q.replySize ? Buffer.alloc(q.replySize) : q.payload,
  sequenceId: q.sequenceId,
});
const error = (code, details) => Object.assign(new Error(details), { code, details });

/** `call` on a streamed method: an error is emitted, not returned. */
const fail = (call, code, details) => call.emit("error", error(code, details));

const handlers = {
  Say: (call, done) => done(null, reply(call.request)),
  Collect(call, done) {
    const texts = [];
    let payloadBytes = 0;
    call.on("data", (q) => {
      texts.push(q.text);
      payloadBytes += q.payload.length;
    });
    call.on("end", () => done(null, { count: texts.length, payloadBytes, texts: texts.join(",") }));
  },
  async Expand(call) {
    const q = call.request;
    for (let i = 0; i < q.count && !call.cancelled; i++) {
      if (i && q.intervalMs) await sleep(q.intervalMs);
      call.write({ text: `expand:${i}`, sequenceId: i, payload: Buffer.alloc(q.size) });
    }
    if (q.endCode) fail(call, q.endCode, q.endMessage);
    else call.end();
  },
  Chat(call) {
    let ended = false;
    call.on("data", (q) => {
      if (ended) return;
      ended = q.text.startsWith("fail:");
      if (ended) fail(call, 9, q.text.slice("fail:".length));
      else call.write(reply(q));
    });
    call.on("end", () => ended || call.end());
  },
  Fail(call, done) {
    const { code, message, details } = call.request;
    if (code === 0) return done(null, {});
    const metadata = new grpc.Metadata();
    if (details.length) {
      const status = RpcStatus.lookupType("Status");
      metadata.add("grpc-status-details-bin", Buffer.from(status.encode({ code, message, details }).finish()));
    }
    done({ code, details: message, metadata });
  },
  async Sleep(call, done) {
    const end = Date.now() + call.request.millis;
    while (Date.now() < end && !call.cancelled) await sleep(Math.min(20, end - Date.now()));
    if (call.cancelled) console.log("dropped Sleep");
    done(null, { text: "slept" });
  },
  Meta(call, done) {
    const [head, trail, seen] = [new grpc.Metadata(), new grpc.Metadata(), []];
    for (const key of Object.keys(call.metadata.getMap()).sort()) {
      const values = call.metadata.get(key);
      const binary = key.endsWith("-bin");
      seen.push({ key, values: binary ? [] : values, binValues: binary ? values : [] });
      if (!key.startsWith("x-echo-")) continue;
      for (const value of values) {
        head.add(key.replace("x-echo-", "x-head-"), value);
        trail.add(key.replace("x-echo-", "x-trail-"), value);
      }
    }
    call.sendMetadata(head);
    done(null, { seen, payload: Buffer.alloc(call.request.replySize) }, trail);
  },
};

const server = new grpc.Server();
server.addService(Echo.service, handlers);
new HealthImplementation({ "": "SERVING", [SERVICE]: "SERVING" }).addToServer(server);
const addr = option("addr", "127.0.0.1:0");
server.bindAsync(addr, grpc.ServerCredentials.createInsecure(), (failed, port) => {
  if (failed) throw failed;
  console.log("listening on", addr.replace(/:\d+$/, `:${port}`));
});
