// Types of the server's JSON. The page ignores fields that it does not know.

/** Change of a symbol in a touched file. */
export interface CodeChange {
  kind: string;
  symbol: string;
  previousSymbol?: string;
  detail?: string;
}

/** File that a node's work has read or changed. */
export interface FileTouch {
  path: string;
  action: string;
  previousPath?: string;
  lines?: string;
  symbols?: string[];
  changes?: CodeChange[];
  summary?: string;
  timestamp: string;
}

/** Question of an agent to the user. It is open while it has no answer. */
export interface Question {
  id: string;
  text: string;
  options?: string[];
  askedAt: string;
  /** Name of the agent's MCP client. */
  client?: string;
  answer?: string;
  answeredAt?: string;
  /** When the agent got the answer. */
  deliveredAt?: string;
}

/** Comment of the user. */
export interface Comment {
  id: string;
  text: string;
  timestamp: string;
  /** When an agent got the comment. */
  deliveredAt?: string;
}

export interface MapNode {
  id: string;
  label: string;
  type: string;
  status?: string;
  /** Why a task is blocked. */
  reason?: string;
  parent: string | null;
  children: string[];
  files?: FileTouch[];
  questions?: Question[];
  comments?: Comment[];
  updatedAt?: string;
}

export interface Link {
  id: string;
  from: string;
  to: string;
  label: string;
  style?: string;
  notes?: string;
}

/** Entry of the activity log. */
export interface Activity {
  timestamp: string;
  message: string;
  nodeId?: string;
  file?: string;
  /** Name of the agent's MCP client. */
  client?: string;
}

export interface Mindmap {
  id: string;
  title: string;
  workspacePath?: string;
  createdAt: string;
  updatedAt: string;
  nodes: Record<string, MapNode>;
  links: Link[];
  activityLog: Activity[];
}

/** Map in the list of all maps, which the page calls sessions. */
export interface SessionSummary {
  id: string;
  title: string;
  workspacePath: string | null;
  updatedAt: string;
  createdAt: string;
  nodeCount: number;
  completedTasks: number;
  totalTasks: number;
  activeTask: string | null;
  fileCount: number;
}
