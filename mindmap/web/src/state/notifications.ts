// Notifications of the browser about questions, while the tab is hidden.

import { assertApiError, fetchMindmap } from "../api/client";
import { listOpenQuestions } from "../model/progress";
import { app } from "./app";

export async function requestNotifications(): Promise<void> {
  await Notification.requestPermission();
}

let isCheckingQuestions = false;
const notified = new Set<string>();

/** Shows a notification for each open question that the hidden tab does not show yet. A click on it opens the node. */
export async function notifyOfQuestions(id: string, openNode: (map: string, node: string) => void): Promise<void> {
  if (isCheckingQuestions || !("Notification" in window) || Notification.permission !== "granted") return;
  isCheckingQuestions = true;
  try {
    const shown = new Set(listOpenQuestions(app.get().map!).map(({ question }) => question.id));
    for (const { node, question } of listOpenQuestions(await fetchMindmap(id))) {
      if (shown.has(question.id) || notified.has(question.id)) continue;
      notified.add(question.id);
      // The tag is the same in other tabs, so there is one notification for all.
      const notification = new Notification(`${question.client ?? "An agent"} asks about ${node.label}`, { body: question.text, tag: question.id });
      notification.onclick = () => (window.focus(), openNode(id, node.id));
    }
  } catch (error) {
    assertApiError(error); // the next event tries again
  } finally {
    isCheckingQuestions = false;
  }
}
