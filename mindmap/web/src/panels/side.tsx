// Side panel with tabs for node, files and activity.

import { app, type Tab } from "../state/app";
import { useSelector } from "../state/store";
import { ActivityLog } from "./activity";
import { Files } from "./files";
import { ToolButton } from "./icon";
import { Minimaps } from "./minimap";
import { NodePanel } from "./node";

const TABS: [Tab, string][] = [
  ["node", "Node"],
  ["files", "Files"],
  ["activity", "Activity"],
];

export function SidePanel() {
  const tab = useSelector(app, (state) => state.tab);
  return (
    <aside class="side" aria-label="Details">
      <div class="side-head">
        <div class="tabs" role="tablist" aria-label="Details of" onKeyDown={onTabKey}>
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
        <ToolButton icon="close" label="Close the panel" onClick={() => app.set({ isPanelOpen: false })} />
      </div>
      <div id="side-body" class="side-body" role="tabpanel" aria-labelledby={`tab-${tab}`} tabIndex={0}>
        {tab === "node" ? <NodePanel /> : tab === "files" ? <Files /> : <ActivityLog />}
      </div>
      <Minimaps />
    </aside>
  );
}

function onTabKey(event: KeyboardEvent): void {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!step) return;
  const index = TABS.findIndex(([name]) => name === app.get().tab);
  const [next] = TABS[(index + step + TABS.length) % TABS.length]!;
  app.set({ tab: next });
  document.getElementById(`tab-${next}`)?.focus();
  event.preventDefault();
  event.stopPropagation();
}
