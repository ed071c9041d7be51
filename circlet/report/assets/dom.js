// Elements of the page.

/** An element; properties that start with "on" are listeners, the others attributes. */
export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

/** A table; cells are texts or elements, and `numbers` says which columns are aligned right. */
export function table(headings, rows, numbers = []) {
  const side = (index) => (numbers.includes(index) ? { class: "number" } : {});
  const head = headings.map((text, i) => element("th", { scope: "col", ...side(i) }, text));
  const body = rows.map((cells) =>
    element("tr", {}, ...cells.map((cell, i) => element("td", side(i), cell))));
  return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "table" },
    element("table", {}, element("thead", {}, element("tr", {}, ...head)),
      element("tbody", {}, ...body)));
}

/** Terms and what they are, side by side; those without a value are left out. */
export function facts(pairs) {
  const shown = pairs.filter(([, value]) => value !== "" && value !== null && value !== undefined);
  return element("dl", {}, ...shown.flatMap(([term, value]) => [
    element("dt", {}, term), element("dd", {}, value)]));
}

/** A group of buttons of which one is pressed. */
export function choices(label, options, chosen, choose) {
  return element("div", { class: "choices", role: "group", "aria-label": label },
    ...options.map(([value, text]) => element("button", {
      type: "button", "data-value": value, "aria-pressed": String(value === chosen),
      onclick: () => choose(value) }, text)));
}

/** A listener that waits for the calls before it to end: for sizes that change and typing. */
export function debounced(call, milliseconds) {
  let waiting;
  return (...given) => {
    clearTimeout(waiting);
    waiting = setTimeout(() => call(...given), milliseconds);
  };
}
