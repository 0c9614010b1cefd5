// The panel beside the map: the node, the files, the log.

import { app, type Tab } from "../state/app";
import { useChosen } from "../state/store";
import { ActivityLog } from "./activity";
import { Files } from "./files";
import { Tool } from "./icon";
import { NodePanel } from "./node";

const TABS: [Tab, string][] = [
  ["node", "Node"],
  ["files", "Files"],
  ["activity", "Activity"],
];

export function Side() {
  const tab = useChosen(app, (state) => state.tab);
  return (
    <aside class="side" aria-label="Details">
      <div class="side-head">
        <div class="tabs" role="tablist" aria-label="Details of" onKeyDown={turned}>
          {TABS.map(([name, label]) => (
            <button
              key={name}
              type="button"
              role="tab"
              id={`tab-${name}`}
              aria-selected={tab === name}
              aria-controls="side-body"
              tabIndex={tab === name ? 0 : -1}
              onClick={() => app.set({ tab: name })}
            >
              {label}
            </button>
          ))}
        </div>
        <Tool icon="close" label="Close the panel" onClick={() => app.set({ panel: false })} />
      </div>
      <div id="side-body" class="side-body" role="tabpanel" aria-labelledby={`tab-${tab}`} tabIndex={0}>
        {tab === "node" ? <NodePanel /> : tab === "files" ? <Files /> : <ActivityLog />}
      </div>
    </aside>
  );
}

function turned(event: KeyboardEvent): void {
  const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!by) return;
  const at = TABS.findIndex(([name]) => name === app.get().tab);
  const [next] = TABS[(at + by + TABS.length) % TABS.length]!;
  app.set({ tab: next });
  document.getElementById(`tab-${next}`)?.focus();
  event.preventDefault();
  event.stopPropagation();
}
