// Starts `ptxlab lsp`, adds the two commands that lead from PTX to its source and back, and starts `ptxlab debug --dap` for a launch.
"use strict";

const vscode = require("vscode");
const { LanguageClient, TransportKind } = require("vscode-languageclient/node");

let client;

/** Show places that the server has given: the only one at once, several in a list. */
async function show(found) {
  const places = (Array.isArray(found) ? found : [found]).filter(Boolean);
  if (places.length === 0) {
    vscode.window.showInformationMessage("There is no line information for this line.");
    return;
  }
  const locations = places.map((place) => client.protocol2CodeConverter.asLocation(place));
  const editor = vscode.window.activeTextEditor;
  await vscode.commands.executeCommand(
    "editor.action.goToLocations",
    editor.document.uri,
    editor.selection.active,
    locations,
    locations.length === 1 ? "goto" : "peek",
    "",
  );
}

/** Ask a command of the server about the line of the cursor. */
async function ask(command) {
  const editor = vscode.window.activeTextEditor;
  if (!editor || !client) {
    return;
  }
  const uri = client.code2ProtocolConverter.asUri(editor.document.uri);
  const line = editor.selection.active.line;
  await show(await client.sendRequest("workspace/executeCommand", { command, arguments: [uri, line] }));
}

async function activate(context) {
  const [command, ...args] = vscode.workspace.getConfiguration("ptxlab").get("command");
  client = new LanguageClient(
    "ptxlab",
    "ptxlab",
    { command, args, transport: TransportKind.stdio },
    { documentSelector: [{ language: "ptx" }] },
  );
  context.subscriptions.push(
    vscode.debug.registerDebugAdapterDescriptorFactory("ptxlab", {
      createDebugAdapterDescriptor() {
        const [debugCommand, ...debugArgs] = vscode.workspace.getConfiguration("ptxlab").get("debugCommand");
        return new vscode.DebugAdapterExecutable(debugCommand, debugArgs);
      },
    }),
    vscode.commands.registerCommand("ptxlab.goToSource", () => ask("ptxlab.source")),
    vscode.commands.registerCommand("ptxlab.goToInstructions", () => ask("ptxlab.instructions")),
  );
  await client.start();
}

function deactivate() {
  return client ? client.stop() : undefined;
}

module.exports = { activate, deactivate };
