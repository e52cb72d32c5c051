// Executes commands of the workbench one after the other, as a person does with keys and menus: begins to debug, steps, looks, ends.
"use strict";

const fs = require("node:fs");
const path = require("node:path");
const vscode = require("vscode");

const WAIT = 30000;
const QUIET = 1500;

/** What has been heard from the adapter, and when anything was last said. */
const heard = [];
let last = Date.now();

function tracker() {
  return {
    onWillReceiveMessage() {
      last = Date.now();
    },
    onDidSendMessage(message) {
      last = Date.now();
      heard.push(message);
    },
  };
}

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function until(what, test) {
  for (const start = Date.now(); !test(); await pause(50)) {
    if (Date.now() - start > WAIT) {
      throw new Error(`nothing came of ${what}`);
    }
  }
}

/** Wait until the workbench asks nothing more. */
async function quiet() {
  await until("quiet", () => Date.now() - last > QUIET);
}

/** Execute a command of the workbench, which lets the launch stop anew. */
async function move(command) {
  const count = heard.filter((m) => m.event === "stopped").length;
  await vscode.commands.executeCommand(command);
  await until(command, () => heard.filter((m) => m.event === "stopped").length > count);
  await quiet();
}

async function execute(command, ...args) {
  await vscode.commands.executeCommand(command, ...args);
  await quiet();
}

/** Open a text and select the first place of some words in it. */
async function select(document, words) {
  const editor = await vscode.window.showTextDocument(document);
  const start = document.getText().indexOf(words);
  editor.selection = new vscode.Selection(document.positionAt(start), document.positionAt(start + words.length));
}

async function debug(folder) {
  const source = vscode.Uri.joinPath(folder.uri, "sum.cu");
  const ptx = await vscode.workspace.openTextDocument(vscode.Uri.joinPath(folder.uri, "sum.ptx"));
  const document = await vscode.workspace.openTextDocument(source);
  const at = (uri, line) => new vscode.Location(uri, new vscode.Position(line - 1, 0));
  await vscode.window.showTextDocument(document);
  await vscode.commands.executeCommand("workbench.view.debug");
  const conditional = new vscode.SourceBreakpoint(at(source, 8), true, "%r3 == 3");
  vscode.debug.addBreakpoints([
    conditional,
    new vscode.SourceBreakpoint(at(ptx.uri, 32)),
    new vscode.FunctionBreakpoint("st.shared"),
  ]);
  await pause(500);

  await move("workbench.action.debug.start"); // stops on entry
  await move("workbench.action.debug.stepOver");
  await move("workbench.action.debug.continue"); // line 8 of the source, in the round of 3
  await move("workbench.action.debug.stepInto");
  await move("workbench.action.debug.stepBack");

  // The scopes behind the first one.
  await execute("workbench.debug.action.focusVariablesView");
  for (let row = 0; row < 4; row++) {
    await execute("list.focusDown");
  }
  await execute("list.collapse");
  await execute("list.collapse");
  for (let row = 0; row < 2; row++) {
    await execute("list.focusDown");
    await execute("list.expand");
  }

  // Watch, evaluate, and the console.
  await select(ptx, "%r2");
  await execute("editor.debug.action.selectionToWatch");
  await select(ptx, "%r3");
  await execute("editor.debug.action.selectionToRepl");
  await execute("workbench.debug.action.focusRepl");
  await execute("default:type", { text: "barriers" });
  await execute("repl.action.acceptInput");

  // Instructions: the view, and steps in it.
  await execute("debug.action.openDisassemblyView");
  await move("workbench.action.debug.stepOver");
  await move("workbench.action.debug.stepBack");

  vscode.debug.removeBreakpoints([conditional]);
  await quiet();
  await pointer(folder); // a data breakpoint at %r5
  await move("workbench.action.debug.continue");
  await move("workbench.action.debug.continue"); // the function breakpoint, in the first warp
  await move("workbench.action.debug.continue"); // in the second warp
  await move("workbench.action.debug.continue"); // the breakpoint in the PTX text
  await memory();
  await move("workbench.action.debug.reverseContinue");
  await move("workbench.action.debug.stepOut");
  await execute("workbench.debug.viewlet.action.removeAllBreakpoints");
  await move("workbench.action.debug.reverseContinue"); // back to the entry
  await move("workbench.action.debug.continue"); // to the end, where the launch stands
  await move("workbench.action.debug.stepBack");
  await vscode.commands.executeCommand("workbench.action.debug.stop");
  await until("the end", () => !vscode.debug.activeDebugSession);
  await pause(1000);
}

/** Read memory as a viewer of memory does: through the file system of the workbench, at the address that a variable refers to. */
async function memory() {
  const rows = heard.filter((m) => m.command === "variables" && m.success).flatMap((m) => m.body.variables);
  const { memoryReference } = rows.reverse().find((row) => row.memoryReference);
  const session = vscode.debug.activeDebugSession.id;
  const uri = vscode.Uri.from({ scheme: "vscode-debug-memory", authority: session, path: `/${encodeURIComponent(memoryReference)}/memory.bin`, query: "0:64" });
  await vscode.workspace.fs.readFile(uri);
  await quiet();
}

/** Let the program that shows the workbench use the pointer: for what is only in a menu. */
async function pointer(folder) {
  const file = path.join(folder.uri.fsPath, "pointer");
  fs.writeFileSync(file, "");
  await until("the pointer", () => !fs.existsSync(file));
  await quiet();
}

async function activate(context) {
  const [folder] = vscode.workspace.workspaceFolders ?? [];
  if (!folder) {
    return;
  }
  context.subscriptions.push(vscode.debug.registerDebugAdapterTrackerFactory("ptxlab", { createDebugAdapterTracker: tracker }));
  let result;
  try {
    await debug(folder);
    result = { done: true, version: vscode.version };
  } catch (error) {
    result = { error: String(error.stack ?? error) };
  }
  fs.writeFileSync(path.join(folder.uri.fsPath, "result.json"), JSON.stringify(result));
}

module.exports = { activate };
