// Questions of agents to the user, above the map and at their node, and the user's comments on a node.

import { useRef, useState } from "preact/hooks";
import type { MapNode, Question } from "../api/types";
import { listOpenQuestions } from "../model/progress";
import { addComment, answerQuestion, dismissQuestion, select } from "../state/actions";
import { app, useSelector } from "../state/app";
import { Time } from "./widgets";

/** The oldest open question of the map that the user has not dismissed, and how many more there are. */
export function QuestionBanner() {
  const map = useSelector(app, (state) => state.map)!;
  const dismissed = useSelector(app, (state) => state.dismissedQuestions);
  const [first, ...others] = listOpenQuestions(map).filter(({ question }) => !dismissed.has(question.id));
  if (!first) return null;
  const { node, question } = first;
  return (
    <section class="banner question-banner" aria-label="Question">
      <p>
        {question.client ?? "An agent"} asks about{" "}
        <button type="button" class="link-button" onClick={() => select(node.id)}>
          {node.label}
        </button>
        {others.length > 0 && <span class="muted"> · {others.length} more open</span>}
      </p>
      <NotificationButton />
      <button type="button" class="link-button" title="The question stays open. Select its card to answer it." onClick={() => dismissQuestion(question.id)}>
        Answer later
      </button>
      <QuestionForm key={question.id} question={question} />
    </section>
  );
}

function NotificationButton() {
  const [isOffered, setOffered] = useState("Notification" in window && Notification.permission === "default");
  if (!isOffered) return null;
  return (
    <button type="button" class="link-button" onClick={() => void Notification.requestPermission().then(() => setOffered(false))}>
      Notify me of questions while this tab is hidden
    </button>
  );
}

/** Text of an open question, with its options and a field for another answer. */
function QuestionForm({ question: { id, text, options = [] } }: { question: Question }) {
  const [isSending, setSending] = useState(false);
  const send = async (answer: string): Promise<boolean> => {
    setSending(true);
    const isSent = await answerQuestion(id, answer);
    setSending(false);
    return isSent;
  };
  return (
    <div class="question">
      <p class="question-text">{text}</p>
      <div class="row">
        {options.map((option) => (
          <button key={option} type="button" class="button small" disabled={isSending} onClick={() => void send(option)}>
            {option}
          </button>
        ))}
        <MessageForm label={options.length ? "Another answer" : "Answer"} send={send} />
      </div>
    </div>
  );
}

/** Text field that keeps its text until it is sent. Text that is typed while sending stays. */
function MessageForm({ label, send }: { label: string; send: (text: string) => Promise<boolean> }) {
  const [text, setText] = useState("");
  const isSending = useRef(false); // not a state: Enter can be pressed twice before the next rendering
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    if (!text.trim() || isSending.current) return;
    isSending.current = true;
    try {
      if (await send(text)) setText((current) => (current === text ? "" : current));
    } finally {
      isSending.current = false;
    }
  };
  return (
    <form class="message-form" onSubmit={(event) => void submit(event)}>
      <input type="text" aria-label={label} placeholder={label} autocomplete="off" value={text} onInput={(event) => setText(event.currentTarget.value)} />
      <button type="submit" class="button small" disabled={!text.trim()}>
        Send
      </button>
    </form>
  );
}

/** Questions about a node with their answers, and the user's comments on it. */
export function NodeMessages({ node }: { node: MapNode }) {
  const { questions = [], comments = [] } = node;
  return (
    <>
      {questions.length > 0 && (
        <section>
          <h3>
            Questions <span class="count">{questions.length}</span>
          </h3>
          <ul class="talk">
            {questions.map((question) => (
              <li key={question.id}>{question.answer === undefined ? <QuestionForm question={question} /> : <AnsweredQuestion question={question} />}</li>
            ))}
          </ul>
        </section>
      )}
      <section>
        <h3>
          Comments {comments.length > 0 && <span class="count">{comments.length}</span>}
        </h3>
        <ul class="talk">
          {comments.map((comment) => (
            <li key={comment.id}>
              <p>{comment.text}</p>
              <Delivery at={comment.timestamp} isDelivered={!!comment.deliveredAt} recipient="an agent" />
            </li>
          ))}
        </ul>
        <MessageForm key={node.id} label="Comment for the agent" send={(text) => addComment(node.id, text)} />
      </section>
    </>
  );
}

const AnsweredQuestion = ({ question: { text, answer, answeredAt, deliveredAt } }: { question: Question }) => (
  <>
    <p class="muted">{text}</p>
    <p>{answer}</p>
    <Delivery at={answeredAt} isDelivered={!!deliveredAt} recipient="the agent that asked" />
  </>
);

const Delivery = ({ at, isDelivered, recipient }: { at: string | undefined; isDelivered: boolean; recipient: string }) => (
  <p class="entry-facts">
    {at && <Time at={at} />}
    {isDelivered ? `delivered to ${recipient}` : `${recipient} gets it with its next call`}
  </p>
);
