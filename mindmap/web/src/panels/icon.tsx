// Icons, buttons and progress bars of the panels.

import { type Progress, computePercent } from "../model/progress";
import { getGlyphAndLabel, getTypeName } from "../model/vocabulary";
import { TOOL_ICONS, getIcon } from "../render/icons";

interface IconPaths {
  line?: string;
  solid?: string;
}

const IconSvg = ({ icon, name }: { icon: IconPaths; name: string }) => (
  <svg class={`glyph ${name}`} viewBox="0 0 16 16" aria-hidden="true" focusable="false">
    {icon.line && <path class="line" d={icon.line} />}
    {icon.solid && <path class="solid" d={icon.solid} />}
  </svg>
);

export const ToolIcon = ({ name }: { name: string }) => <IconSvg icon={TOOL_ICONS[name]!} name="tool" />;

export const NodeIcon = ({ type, status }: { type: string; status: string | null }) => (
  <IconSvg icon={getIcon(type, status)} name={`mark t-${type}${status ? ` s-${status}` : ""}`} />
);

export function ChangeGlyph({ kind }: { kind: string }) {
  const [glyph, label] = getGlyphAndLabel(kind);
  return (
    <span class={`change k-${kind}`} title={label} role="img" aria-label={label}>
      {glyph}
    </span>
  );
}

export const TypeName = ({ type }: { type: string }) => <span class="type-name">{getTypeName(type)}</span>;

export function ToolButton({
  icon,
  label,
  keys,
  pressed,
  disabled,
  onClick,
  text,
}: {
  icon: string;
  label: string;
  keys?: string;
  pressed?: boolean;
  disabled?: boolean;
  onClick: () => void;
  text?: string;
}) {
  return (
    <button
      type="button"
      class={`tool-button${text ? " with-text" : ""}`}
      title={keys ? `${label} (${keys})` : label}
      aria-label={label}
      aria-pressed={pressed}
      aria-keyshortcuts={keys}
      disabled={disabled ?? false}
      onClick={onClick}
    >
      <ToolIcon name={icon} />
      {text && <span>{text}</span>}
    </button>
  );
}

export function ProgressBar({ done, total, label }: { done: number; total: number; label?: string }) {
  const percent = computePercent({ done, total });
  return (
    <svg class="progress" viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label={label ?? `${done} of ${total} tasks done`}>
      <rect class="bar" width="100" height="6" rx="3" />
      {percent > 0 && <rect class="filled" width={percent} height="6" rx="3" />}
    </svg>
  );
}

/** Progress bar with the numbers of tasks by status; nothing without tasks. */
export function TaskProgress({ progress }: { progress: Progress | undefined }) {
  if (!progress?.total) return null;
  const { done, active, blocked, total } = progress;
  return (
    <div class="task-progress">
      <ProgressBar done={done} total={total} />
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
