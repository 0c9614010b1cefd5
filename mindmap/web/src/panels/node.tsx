// Panel of the selected node, or of the whole map.

import { useState } from "preact/hooks";
import { escapeHiddenCharacters } from "../api/client";
import type { Link, MapNode, Mindmap } from "../api/types";
import { computeProgress, findActiveTask } from "../model/progress";
import { findRelated } from "../model/relations";
import { findAncestors, getStatus } from "../model/tree";
import { getLabel, getTypeName, ROOT, STATUSES } from "../model/vocabulary";
import { select } from "../state/actions";
import { app, getRelations, useSelector } from "../state/app";
import { LogEntries } from "./activity";
import { FileTouchView } from "./files";
import { NodeMessages } from "./questions";
import { NodeButton, NodeIcon, TaskProgress, Time } from "./widgets";

// Longer lists are collapsed, so that the sections below stay visible.
const MAX_NODES = 8;

export function NodePanel() {
  const map = useSelector(app, (state) => state.map)!;
  const id = useSelector(app, (state) => state.route.node);
  const node = map.nodes[id ?? ROOT];
  if (!node) return <RemovedNode />;
  const status = getStatus(node);
  return (
    <article class="node" key={node.id}>
      <AncestorPath map={map} id={node.id} />
      <h2>
        <NodeIcon type={node.type} status={status} />
        <span>{node.label}</span>
      </h2>
      <p class="facts">
        <span class={`pill t-${node.type}`}>{getTypeName(node.type)}</span>
        {status && <span class={`pill s-${status}`}>{getLabel(STATUSES, status)}</span>}
        {node.updatedAt && <Time at={node.updatedAt} />}
      </p>
      {node.reason && <p class="reason">{node.reason}</p>}
      <TaskProgress progress={computeProgress(map).get(node.id)} />
      {node.id === ROOT && <MapOverview map={map} />}
      <NodeMessages node={node} />
      <NodeFiles map={map} node={node} />
      <NodeLinks map={map} node={node} />
      <RelatedNodes map={map} node={node} />
      <ChildNodes map={map} node={node} />
      <NodeActivity map={map} node={node} />
      <p class="id">
        <code>{node.id === ROOT ? map.id : node.id}</code>
      </p>
    </article>
  );
}

const RemovedNode = () => (
  <div class="empty-note">
    <p>This node was removed.</p>
    <button type="button" class="button" onClick={() => select(ROOT)}>
      Show the map
    </button>
  </div>
);

function AncestorPath({ map, id }: { map: Mindmap; id: string }) {
  const ancestors = findAncestors(map, id).reverse();
  if (!ancestors.length) return null;
  return (
    <nav class="crumbs" aria-label="Ancestors">
      {ancestors.map((node) => (
        <button key={node.id} type="button" onClick={() => select(node.id)}>
          {node.label}
        </button>
      ))}
    </nav>
  );
}

/** Overview of the whole map: workspace, active and blocked tasks, risks and hypotheses. */
function MapOverview({ map }: { map: Mindmap }) {
  const nodes = Object.values(map.nodes);
  const active = findActiveTask(map);
  const inProgress = nodes.filter((node) => getStatus(node) === "in_progress");
  inProgress.sort((a, b) => Number(b.id === active) - Number(a.id === active));
  return (
    <>
      {map.workspacePath && (
        <p class="workspace">
          <code>{escapeHiddenCharacters(map.workspacePath)}</code>
        </p>
      )}
      <NodeList title="In progress" nodes={inProgress} />
      <NodeList title="Blocked" nodes={nodes.filter((node) => getStatus(node) === "blocked")} />
      <NodeList title="Risks" nodes={nodes.filter((node) => node.type === "risk")} />
      <NodeList title="Hypotheses" nodes={nodes.filter((node) => node.type === "hypothesis")} />
    </>
  );
}

function NodeList({ title, nodes }: { title: string; nodes: MapNode[] }) {
  const [isExpanded, setExpanded] = useState(false);
  if (!nodes.length) return null;
  const isShort = nodes.length <= MAX_NODES + 1; // the button would take the place of one more node
  return (
    <section>
      <h3>
        {title} <span class="count">{nodes.length}</span>
      </h3>
      <ul class="nodes">
        {(isExpanded || isShort ? nodes : nodes.slice(0, MAX_NODES)).map((node) => (
          <li key={node.id}>
            <NodeButton node={node} />
          </li>
        ))}
      </ul>
      {!isShort && (
        <button type="button" class="link-button" onClick={() => setExpanded(!isExpanded)}>
          {isExpanded ? "Show fewer" : `Show all ${nodes.length.toLocaleString()}`}
        </button>
      )}
    </section>
  );
}

function NodeFiles({ map, node }: { map: Mindmap; node: MapNode }) {
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
            <FileTouchView map={map} touch={touch} />
          </li>
        ))}
      </ul>
    </section>
  );
}

function NodeLinks({ map, node }: { map: Mindmap; node: MapNode }) {
  const links = getRelations(map).linksByNode.get(node.id) ?? [];
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

const LINK_STYLES: Record<string, string> = { dashed: "Dashed: a hypothesis or a soft dependency", animated: "Animated: a live stream or events" };

function LinkLine({ map, link, from }: { map: Mindmap; link: Link; from: string }) {
  const isOutgoing = link.from === from;
  const other = map.nodes[isOutgoing ? link.to : link.from];
  return (
    <>
      <p class="link-line">
        <span class={`link-style ${link.style ?? "solid"}`} title={LINK_STYLES[link.style ?? ""] ?? "Solid"}>
          <span aria-hidden="true">{isOutgoing ? "→" : "←"}</span>
          <span class="visually-hidden">{isOutgoing ? "to" : "from"}</span>
        </span>
        {link.label && <em>{link.label}</em>}
        {link.style && link.style !== "solid" && <span class="muted">{link.style}</span>}
      </p>
      {other && <NodeButton node={other} />}
      {link.notes && <p class="notes">{link.notes}</p>}
    </>
  );
}

/** Nodes in either part of the map that touch the same files. */
function RelatedNodes({ map, node }: { map: Mindmap; node: MapNode }) {
  const relations = getRelations(map);
  const linked = new Set((relations.linksByNode.get(node.id) ?? []).flatMap(({ from, to }) => [from, to]));
  const others = [...findRelated(map, relations, node.id)].filter((id) => !linked.has(id)).map((id) => map.nodes[id]!);
  return <NodeList title="Nodes with the same files" nodes={others} />;
}

const ChildNodes = ({ map, node }: { map: Mindmap; node: MapNode }) => (
  <NodeList title="Children" nodes={node.children.flatMap((id) => map.nodes[id] ?? [])} />
);

function NodeActivity({ map, node }: { map: Mindmap; node: MapNode }) {
  const entries = map.activityLog.map((entry, index) => ({ entry, index })).filter(({ entry }) => entry.nodeId === node.id);
  if (!entries.length) return null;
  return (
    <section>
      <h3>Activity</h3>
      <LogEntries map={map} entries={entries} about={node.id} />
    </section>
  );
}
