// Node types, statuses, kinds of change and file actions, with their labels.

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

// Kind of change -> glyph and label. The server uses the same glyphs in exports.
export const CHANGE_KINDS: Record<string, readonly [string, string]> = {
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

// A value that only a later version knows has no label here, so its own text is shown.
export const getLabel = (labels: Record<string, string>, key: string): string => labels[key] ?? key.replace(/_/g, " ");
export const getTypeName = (type: string): string => (type === ROOT ? "Map" : getLabel(TYPES, type));
export const getGlyphAndLabel = (kind: string): readonly [string, string] => CHANGE_KINDS[kind] ?? ["•", kind];
