// Notifications of the browser about questions, while the tab is hidden.

import { assertApiError, fetchMindmap } from "../api/client";
import { listOpenQuestions } from "../model/progress";
import { app } from "./app";

export async function requestNotifications(): Promise<void> {
  await Notification.requestPermission();
}

let isCheckingQuestions = false;
const notifiedIds = new Set<string>();

/** Shows a notification for each open question that the hidden tab does not show yet. A click on it opens the node. */
export async function notifyOfQuestions(id: string, openNode: (map: string, node: string) => void): Promise<void> {
  if (isCheckingQuestions || !("Notification" in window) || Notification.permission !== "granted") return;
  isCheckingQuestions = true;
  try {
    const shownIds = new Set(listOpenQuestions(app.get().map!).map(({ question }) => question.id));
    for (const { node, question } of listOpenQuestions(await fetchMindmap(id))) {
      if (shownIds.has(question.id) || notifiedIds.has(question.id)) continue;
      notifiedIds.add(question.id);
      // The tag is the same in other tabs, so the browser shows one notification for all tabs.
      const notification = new Notification(`${question.client ?? "An agent"} asks about ${node.label}`, { body: question.text, tag: question.id });
      notification.onclick = () => (window.focus(), openNode(id, node.id));
    }
  } catch (error) {
    assertApiError(error); // the next event tries again
  } finally {
    isCheckingQuestions = false;
  }
}
