// The words of a map: node types, statuses, kinds of change, each with how people read it.

export const ROOT = "root";
export const TASK_TYPES: readonly string[] = ["plan", "task", "code"];
export const MODEL_TYPES: readonly string[] = ["component", "data_flow", "decision", "hypothesis", "risk"];

export const TYPES: Record<string, string> = {
  plan: "Plan",
  task: "Task",
  code: "Code",
  file: "File",
  note: "Note",
  component: "Component",
  data_flow: "Data flow",
  decision: "Decision",
  hypothesis: "Hypothesis",
  risk: "Risk",
};

export const STATUSES: Record<string, string> = {
  in_progress: "In progress",
  blocked: "Blocked",
  planned: "Planned",
  completed: "Completed",
};

// Kind -> glyph and label, to the letter as the specification has them.
export const CHANGES: Record<string, readonly [string, string]> = {
  add: ["+", "Added"],
  modify: ["~", "Modified"],
  fix: ["✱", "Fixed"],
  refactor: ["⟲", "Refactored"],
  rename: ["↦", "Renamed"],
  remove: ["−", "Removed"],
  test: ["✓", "Tested"],
};

export const ACTIONS: Record<string, string> = {
  read: "Read",
  create: "Created",
  modify: "Modified",
  delete: "Deleted",
  rename: "Renamed",
};

// A word of a later version is shown as it is written.
export const said = (words: Record<string, string>, key: string): string => words[key] ?? key.replace(/_/g, " ");
export const typeName = (type: string): string => (type === ROOT ? "Map" : said(TYPES, type));
export const glyphOf = (kind: string): readonly [string, string] => CHANGES[kind] ?? ["•", kind];
