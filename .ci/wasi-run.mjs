// Runs a WASI preview 1 program under Node: cargo's runner for wasm32-wasip1.
import { readFileSync } from "node:fs";
import { WASI } from "node:wasi";

const [program] = process.argv.slice(2);
const wasi = new WASI({ version: "preview1", args: process.argv.slice(2), env: process.env });
const module = await WebAssembly.compile(readFileSync(program));
process.exitCode = wasi.start(await WebAssembly.instantiate(module, wasi.getImportObject()));
