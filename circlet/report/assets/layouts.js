// Layouts as promises, from a worker that the page makes of its own scripts.

import { layout } from "report/layout";

let worker = null;
let count = 0;
const pending = new Map();

function started() {
  if (worker !== null) return worker;
  try {
    const library = document.getElementById("dagre").textContent;
    const own = JSON.parse(document.getElementById("layout-worker").textContent);
    const text = `${library};globalThis.dagre = dagre;${own}`;
    const url = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
    worker = new Worker(url, { type: "module" });
    worker.onmessage = ({ data }) => settle(data.number, data.box);
    worker.onerror = endWorker;
  } catch {
    worker = false;
  }
  return worker;
}

function settle(number, box) {
  pending.get(number).resolve(box);
  pending.delete(number);
}

/** Goes on without a worker, for those who wait, too. */
function endWorker(event) {
  event.preventDefault();
  worker = false;
  for (const [number, { box }] of [...pending]) settle(number, layout(box));
}

/** The layout of a box; see `layout`. */
export function laidOut(box) {
  const other = started();
  if (!other) return Promise.resolve(layout(box));
  return new Promise((resolve) => {
    count += 1;
    pending.set(count, { box, resolve });
    other.postMessage({ number: count, box });
  });
}
