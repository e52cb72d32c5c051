// A session with the client library of Visual Studio Code: over standard input and output, or at a port.
"use strict";

const assert = require("node:assert");
const { DebugClient } = require("@vscode/debugadapter-testsupport");

const [python, program, ptx, port] = process.argv.slice(2);

async function main() {
  const client = new DebugClient(python, "-c", "ptxlab", { env: process.env });
  client.defaultTimeout = 60000;
  if (port) {
    await client.start(Number(port));
  } else {
    start(client);
  }
  const capabilities = (await client.initializeRequest()).body;
  assert.ok(capabilities.supportsStepBack && capabilities.supportsDataBreakpoints && capabilities.supportsDisassembleRequest);
  const initialized = client.waitForEvent("initialized");
  await Promise.all([initialized, client.launchRequest({ program, stopOnEntry: true, stopAtEnd: true })]);
  const { breakpoints } = (await client.setBreakpointsRequest({ source: { path: ptx }, breakpoints: [{ line: 18 }, { line: 2 }] })).body;
  assert.deepStrictEqual(breakpoints.map((each) => each.verified), [true, false]);
  await Promise.all([client.configurationDoneRequest(), client.assertStoppedLocation("entry", { path: ptx, line: 6 })]);
  await Promise.all([client.continueRequest({ threadId: 1 }), client.assertStoppedLocation("breakpoint", { path: ptx, line: 18 })]);
  const { stackFrames } = (await client.stackTraceRequest({ threadId: 1 })).body;
  const { scopes } = (await client.scopesRequest({ frameId: stackFrames[0].id })).body;
  const { variables } = (await client.variablesRequest({ variablesReference: scopes[0].variablesReference })).body;
  assert.strictEqual(variables.find((each) => each.name === "%r4").value, "10 (0xa)");
  await Promise.all([client.stepBackRequest({ threadId: 1 }), client.assertStoppedLocation("step", { path: ptx, line: 17 })]);
  await Promise.all([client.reverseContinueRequest({ threadId: 1 }), client.assertStoppedLocation("entry", { path: ptx, line: 6 })]);
  await assert.rejects(client.customRequest("frobnicate"));
  await assert.rejects(client.scopesRequest({ frameId: 12345 }));
  await client.disconnectRequest({});
  console.log("done");
  process.exit(0);
}

/** Start the adapter with arguments, for which the library has no parameter. */
function start(client) {
  const { spawn } = require("node:child_process");
  const adapter = spawn(python, ["-c", "from ptxlab.cli import main; main(['debug', '--dap'])"], { stdio: ["pipe", "pipe", "inherit"] });
  client.connect(adapter.stdout, adapter.stdin);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
