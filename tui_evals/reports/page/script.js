"use strict";
(() => {
  const find = (id) => document.getElementById(id);
  const list = find("cards");
  const search = find("search");
  const order = find("order");
  const count = find("count");
  const none = find("none");
  const keys = find("keys");
  const picks = Array.from(document.querySelectorAll("select.filter"));
  const all = Array.from(list.children).map((card, place) => ({
    card,
    place,
    rank: Number(card.dataset.rank),
    groups: card.dataset.is.split("|").map((group) => new Set(group.split(" "))),
    text: null,
  }));

  const textOf = (one) => {
    if (one.text === null) {
      const parts = Array.from(one.card.querySelectorAll(".d"), (element) => element.textContent);
      one.text = parts.join("\n").toLowerCase().replace(/\s+/g, " ");
    }
    return one.text;
  };

  const show = () => {
    const wanted = picks.map((pick) => pick.value).filter(Boolean);
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const one of all) {
      const fits =
        one.groups.some((group) => wanted.every((token) => group.has(token))) &&
        words.every((word) => textOf(one).includes(word));
      if (one.card.hidden === fits) one.card.hidden = !fits;
      if (fits) shown += 1;
    }
    for (const pick of picks) pick.classList.toggle("set", pick.value !== "");
    const items = all.length === 1 ? "item" : "items";
    const total = all.length.toLocaleString("en");
    count.value = shown === all.length ? `${total} ${items}` : `${shown.toLocaleString("en")} of ${total} ${items}`;
    none.hidden = shown > 0 || all.length === 0;
    list.dispatchEvent(new Event("shown"));
  };

  let waiting = false;
  const later = () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      show();
    });
  };

  const sort = () => {
    const by = order.value ? (a, b) => a.rank - b.rank || a.place - b.place : (a, b) => a.place - b.place;
    list.append(...all.slice().sort(by).map((one) => one.card));
  };

  const turn = (open) => {
    for (const one of all) if (!one.card.hidden) one.card.open = open;
  };

  const step = (by) => {
    const visible = Array.from(list.children).filter((card) => !card.hidden);
    if (!visible.length) return;
    const now = document.activeElement && document.activeElement.closest(".card");
    const at = visible.indexOf(now);
    const next = at < 0 ? (by > 0 ? 0 : visible.length - 1) : at + by;
    if (next >= 0 && next < visible.length) visible[next].querySelector("summary").focus();
  };

  const cycle = (by) => {
    const pick = find("cycle");
    pick.selectedIndex = (pick.selectedIndex + by + pick.length) % pick.length;
    show();
  };

  const theme = () => {
    const root = document.documentElement;
    const now = root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
    root.dataset.theme = now === "dark" ? "light" : "dark";
  };

  const clear = () => {
    search.value = "";
    for (const pick of picks) pick.value = "";
    show();
  };

  const acts = {
    j: () => step(1),
    k: () => step(-1),
    "/": () => search.focus(),
    f: () => cycle(1),
    F: () => cycle(-1),
    o: () => turn(true),
    c: () => turn(false),
    t: theme,
    "?": () => keys.showModal(),
  };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || keys.open) return;
    const on = event.target;
    if (on === search && event.key === "Escape") {
      search.value = "";
      show();
      search.blur();
      event.preventDefault();
      return;
    }
    if (on.closest("input, select, textarea")) return;
    const onCard = on.matches(".card > summary");
    const arrow = onCard && { ArrowDown: acts.j, ArrowUp: acts.k }[event.key];
    const act = arrow || (Object.hasOwn(acts, event.key) && acts[event.key]);
    if (!act) return;
    event.preventDefault();
    act();
  });

  const follow = () => {
    const found = location.hash.length > 1 && find(location.hash.slice(1));
    for (let at = found; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
  };

  search.addEventListener("input", later);
  for (const pick of picks) pick.addEventListener("change", show);
  order.addEventListener("change", sort);
  find("tools").addEventListener("submit", (event) => event.preventDefault());
  find("open").addEventListener("click", () => turn(true));
  find("close").addEventListener("click", () => turn(false));
  find("theme").addEventListener("click", theme);
  find("help").addEventListener("click", () => keys.showModal());
  find("clear").addEventListener("click", clear);
  addEventListener("hashchange", follow);
  find("tools").hidden = false;
  // A reloaded page keeps what was chosen before.
  sort();
  show();
  follow();
})();
