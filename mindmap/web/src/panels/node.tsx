// One node: what it is, how it stands, what it meets; without one, the map as a whole.

import { useState } from "preact/hooks";
import type { Link, MapNode, Mindmap } from "../api/types";
import { activeTask } from "../model/progress";
import { related } from "../model/related";
import { ancestors, isTask } from "../model/tree";
import { ROOT, STATUSES, said, typeName } from "../model/vocabulary";
import { statusOf } from "../render/card";
import { app, crossingsOf, progressOf } from "../state/app";
import { select } from "../state/actions";
import { useChosen } from "../state/store";
import { Entries } from "./activity";
import { Bar, Mark } from "./icon";
import { Touch } from "./touch";
import { Time } from "./time";

// A list longer than this hides what stands below it.
const SHOWN = 8;

export function NodePanel() {
  const map = useChosen(app, (state) => state.map)!;
  const id = useChosen(app, (state) => state.route.node);
  const node = map.nodes[id ?? ROOT];
  if (!node) return <Gone />;
  return (
    <article class="node" key={node.id}>
      <Path map={map} id={node.id} />
      <h2>
        <Mark type={node.type} status={statusOf(node)} />
        <span>{node.label}</span>
      </h2>
      <p class="facts">
        <span class={`pill t-${node.type}`}>{typeName(node.type)}</span>
        {isTask(node) && <span class={`pill s-${node.status ?? "planned"}`}>{said(STATUSES, node.status ?? "planned")}</span>}
        {node.updatedAt && <Time at={node.updatedAt} />}
      </p>
      <Standing map={map} node={node} />
      {node.id === ROOT && <AtWork map={map} />}
      <Touches map={map} node={node} />
      <Links map={map} node={node} />
      <Meets map={map} node={node} />
      <Children map={map} node={node} />
      <History map={map} node={node} />
      <p class="id">
        <code>{node.id === ROOT ? map.id : node.id}</code>
      </p>
    </article>
  );
}

const Gone = () => (
  <div class="aside">
    <p>This node was removed.</p>
    <button type="button" class="button" onClick={() => select(ROOT)}>
      Show the map
    </button>
  </div>
);

function Path({ map, id }: { map: Mindmap; id: string }) {
  const above = ancestors(map, id).reverse();
  if (!above.length) return null;
  return (
    <nav class="crumbs" aria-label="Above this node">
      {above.map((node) => (
        <button key={node.id} type="button" onClick={() => select(node.id)}>
          {node.label}
        </button>
      ))}
    </nav>
  );
}

function Standing({ map, node }: { map: Mindmap; node: MapNode }) {
  const under = progressOf(map).get(node.id);
  if (!under?.total) return null;
  const { done, active, blocked, total } = under;
  return (
    <div class="standing">
      <Bar done={done} total={total} />
      <p>
        <strong>
          {done} of {total}
        </strong>{" "}
        tasks done
        {active > 0 && `, ${active} in progress`}
        {blocked > 0 && <span class="bad">, {blocked} blocked</span>}
      </p>
    </div>
  );
}

/** Of the whole map: what is being done, what is stuck, what is feared. */
function AtWork({ map }: { map: Mindmap }) {
  const nodes = Object.values(map.nodes);
  const active = activeTask(map);
  const doing = nodes.filter((node) => isTask(node) && node.status === "in_progress");
  doing.sort((one, other) => Number(other.id === active) - Number(one.id === active));
  return (
    <>
      {map.workspacePath && (
        <p class="workspace">
          <code>{map.workspacePath}</code>
        </p>
      )}
      <Nodes title="In progress" nodes={doing} />
      <Nodes title="Blocked" nodes={nodes.filter((node) => isTask(node) && node.status === "blocked")} />
      <Nodes title="Risks" nodes={nodes.filter((node) => node.type === "risk")} />
      <Nodes title="Hypotheses" nodes={nodes.filter((node) => node.type === "hypothesis")} />
    </>
  );
}

export function Nodes({ title, nodes }: { title: string; nodes: MapNode[] }) {
  const [all, setAll] = useState(false);
  if (!nodes.length) return null;
  const few = nodes.length <= SHOWN + 1;
  return (
    <section>
      <h3>
        {title} <span class="count">{nodes.length}</span>
      </h3>
      <ul class="nodes">
        {(all || few ? nodes : nodes.slice(0, SHOWN)).map((node) => (
          <li key={node.id}>
            <NodeButton node={node} />
          </li>
        ))}
      </ul>
      {!few && (
        <button type="button" class="link-button" onClick={() => setAll(!all)}>
          {all ? "Show fewer" : `Show all ${nodes.length.toLocaleString()}`}
        </button>
      )}
    </section>
  );
}

export function NodeButton({ node }: { node: MapNode }) {
  return (
    <button
      type="button"
      class="node-button"
      onClick={() => select(node.id)}
      onPointerEnter={() => app.set({ hovered: node.id })}
      onPointerLeave={() => app.set({ hovered: null })}
    >
      <Mark type={node.type} status={statusOf(node)} />
      <span>{node.label}</span>
    </button>
  );
}

function Touches({ map, node }: { map: Mindmap; node: MapNode }) {
  const files = node.files ?? [];
  if (!files.length) return null;
  return (
    <section>
      <h3>
        Files <span class="count">{files.length}</span>
      </h3>
      <ul class="touches">
        {files.map((touch) => (
          <li key={touch.path}>
            <Touch map={map} touch={touch} />
          </li>
        ))}
      </ul>
    </section>
  );
}

function Links({ map, node }: { map: Mindmap; node: MapNode }) {
  const links = crossingsOf(map).linksOf.get(node.id) ?? [];
  if (!links.length) return null;
  return (
    <section>
      <h3>
        Links <span class="count">{links.length}</span>
      </h3>
      <ul class="links-list">
        {links.map((link) => (
          <li key={link.id}>
            <LinkLine map={map} link={link} from={node.id} />
          </li>
        ))}
      </ul>
    </section>
  );
}

const STYLES: Record<string, string> = { dashed: "Dashed: a hypothesis or a soft dependency", animated: "Animated: a live stream or events" };

function LinkLine({ map, link, from }: { map: Mindmap; link: Link; from: string }) {
  const out = link.from === from;
  const other = map.nodes[out ? link.to : link.from];
  return (
    <>
      <p class="link-line">
        <span class={`link-style ${link.style ?? "solid"}`} title={STYLES[link.style ?? ""] ?? "Solid"}>
          <span aria-hidden="true">{out ? "→" : "←"}</span>
          <span class="visually-hidden">{out ? "to" : "from"}</span>
        </span>
        {link.label && <em>{link.label}</em>}
        {link.style && link.style !== "solid" && <span class="muted">{link.style}</span>}
      </p>
      {other && <NodeButton node={other} />}
      {link.notes && <p class="notes">{link.notes}</p>}
    </>
  );
}

/** What touches the same files, on whichever side of the map. */
function Meets({ map, node }: { map: Mindmap; node: MapNode }) {
  const cross = crossingsOf(map);
  const linked = new Set((cross.linksOf.get(node.id) ?? []).flatMap(({ from, to }) => [from, to]));
  const others = [...related(map, cross, node.id)].filter((id) => !linked.has(id)).map((id) => map.nodes[id]!);
  return <Nodes title="Touch the same files" nodes={others} />;
}

const Children = ({ map, node }: { map: Mindmap; node: MapNode }) => (
  <Nodes title="Under it" nodes={node.children.flatMap((id) => map.nodes[id] ?? [])} />
);

function History({ map, node }: { map: Mindmap; node: MapNode }) {
  const entries = map.activityLog.map((entry, step) => ({ entry, step })).filter(({ entry }) => entry.nodeId === node.id);
  if (!entries.length) return null;
  return (
    <section>
      <h3>Activity</h3>
      <Entries map={map} entries={entries} />
    </section>
  );
}
