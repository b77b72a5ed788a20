// Keep the state of the page in the part of the address behind "#", so that a link or a reload restores it.
const state = { view: "", by: "module", filter: "", sort: "ns", descending: true, selected: new Set() };
const listeners = [];

function read() {
  const given = new URLSearchParams(location.hash.slice(1));
  state.view = given.get("view") || "";
  state.by = given.get("by") in GROUPS ? given.get("by") : "module";
  state.filter = given.get("filter") || "";
  state.sort = given.get("sort") || "ns";
  state.descending = given.get("order") !== "ascending";
  const chosen = (given.get("select") || "").split(",").filter(Boolean).map(Number);
  state.selected = new Set(chosen.filter(index => index in operators));
}

function write() {
  const kept = { view: state.view };
  if (state.by !== "module") kept.by = state.by;
  if (state.filter) kept.filter = state.filter;
  if (state.sort !== "ns") kept.sort = state.sort;
  if (!state.descending) kept.order = "ascending";
  if (state.selected.size) kept.select = [...state.selected].join(",");
  if (location.protocol === "about:") return;  // a frame of a notebook has no address of its own
  history.replaceState(null, "", "#" + new URLSearchParams(kept));
}

// Change the state, and tell the views which parts changed.
function change(values) {
  Object.assign(state, values);
  write();
  for (const listener of listeners) listener(values);
}

// Select operators by their indexes; if exactly these are selected, clear the selection.
function select(members) {
  const same = members.length === state.selected.size && members.every(index => state.selected.has(index));
  change({ selected: new Set(same ? [] : members) });
}

// Give the class "selected" to the elements of a view whose operators are all selected.
function mark(root) {
  for (const one of root.querySelectorAll("[data-members]")) {
    const members = one.dataset.members.split(" ").filter(Boolean).map(Number);
    one.classList.toggle("selected", members.length > 0 && members.every(index => state.selected.has(index)));
  }
  for (const drawing of root.querySelectorAll("svg")) {
    drawing.classList.toggle("some", drawing.querySelector(".selected") !== null);
  }
}
