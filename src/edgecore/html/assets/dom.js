// Make elements of the document. Text from the report becomes text nodes and attributes, never markup.
const SVG = "http://www.w3.org/2000/svg";

function fill(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, one] of Object.entries(value)) made.style.setProperty(key, one);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter(child => child !== null && child !== undefined));
  return made;
}

const element = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes = {}, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

// Make a drawing that scrolls to the side rather than shrink its text where the window is narrow.
const plot = (attributes, ...children) => element("div", { class: "wide" }, svg("svg", { class: "plot", ...attributes }, ...children));

// Return a function that tells whether a text has all words of a filter, in upper or lower case.
function matcher(filter) {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  return text => {
    const lower = text.toLowerCase();
    return words.every(word => lower.includes(word));
  };
}

// Return attributes of an element that calls `action` on a click, and on Enter or Space while it has the focus.
function pressed(action) {
  return {
    tabindex: 0,
    onclick: action,
    onkeydown: event => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      action(event);
    },
  };
}

// Replace the cells of a table's head. If a button in a replaced cell had the focus, the new button there gets it.
function replaceHead(head, cells) {
  const place = [...head.children].findIndex(cell => cell.contains(document.activeElement));
  head.replaceChildren(...cells);
  const button = place < 0 || place >= head.children.length ? null : head.children[place].querySelector("button");
  if (button) button.focus();
}

// Make a box of a drawing: a rectangle, as much of `text` as fits inside, and `tooltip`.
function box(x, y, width, height, colour, text, tooltip, members, more = {}) {
  const shape = svg("rect", {
    x, y, width: Math.max(width, 0.3), height, fill: colour, class: "box", "data-members": members.join(" "),
    "aria-label": tooltip, role: "button", ...pressed(() => select(members)), ...more,
  }, svg("title", {}, tooltip));
  const room = Math.floor((width - 6) / 7.3);
  const shown = text.length <= room ? text : room > 3 ? text.slice(0, room - 1) + "…" : "";
  return [shape, shown ? svg("text", { x: x + 3, y: y + height / 2 + 4, class: colour.startsWith("#") ? "on" : null }, shown) : null];
}
