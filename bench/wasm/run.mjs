// Times the calls that a module makes within itself: run.mjs MODULE [PAYLOAD]. Prints one line of JSON.
import { readFile } from 'node:fs/promises';
import { gzipSync } from 'node:zlib';

const [path, payload = '128'] = process.argv.slice(2);
const module = await readFile(path);
const { instance } = await WebAssembly.instantiate(module);

const ROUNDS = 15;
const CALLS = 20_000;

function round() {
  const before = process.cpuUsage();
  const whole = instance.exports.calls(CALLS, Number(payload));
  const { user, system } = process.cpuUsage(before);
  if (whole !== CALLS) {
    throw new Error(`${whole} of ${CALLS} calls came back`);
  }
  return (user + system) / CALLS;
}

round(); // compiles
const rounds = Array.from({ length: ROUNDS }, round).sort((a, b) => a - b);
console.log(JSON.stringify({
  call_us: rounds[ROUNDS >> 1], lowest_us: rounds[0], highest_us: rounds[ROUNDS - 1], payload: Number(payload),
  bytes: module.length, bytes_gzip: gzipSync(module, { level: 9 }).length, node: process.version,
}));
