(() => {
  const find = (id) => document.getElementById(id);
  const SIZE = 50;
  const [ITEM, NAME, STATUS, SCORE, COLUMN, CATEGORY, FAILED, WORDS, PROMPT, ANSWER, WHY, FULL] = Array(12).keys();
  const search = find("search");
  const order = find("order");
  const picks = Array.from(document.querySelectorAll("select.filter"));
  let data = null;
  let lines = [];
  let page = 0;

  const unpack = async () => {
    const text = atob(find("packed").textContent);
    const bytes = new Uint8Array(text.length);
    for (let at = 0; at < text.length; at += 1) bytes[at] = text.charCodeAt(at);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).json();
  };

  const test = (token) => {
    const name = token.slice(2);
    const place = Number(token.slice(1));
    if (token.startsWith("s-")) return (row) => data.statuses[row[STATUS]][0] === name;
    if (token.startsWith("w-")) return (row) => row[WORDS].some((word) => data.words[word] === name);
    if (token[0] === "t") return (row) => row[COLUMN] === place;
    if (token[0] === "c") return (row) => row[CATEGORY] === place;
    return (row) => row[FAILED].includes(place);
  };

  const textOf = (row) => `${row[NAME]}\n${row[PROMPT]}\n${row[ANSWER]}\n${row[WHY]}`.toLowerCase();
  const rank = (row) => row[STATUS] * 1000 + (row[SCORE] === "" ? 100 : Number(row[SCORE]));

  const filter = () => {
    const tests = picks.map((pick) => pick.value).filter(Boolean).map(test);
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    lines = data.rows.filter((row) => tests.every((fits) => fits(row)));
    if (words.length) {
      lines = lines.filter((row) => {
        const text = textOf(row);
        return words.every((word) => text.includes(word));
      });
    }
    if (order.value) lines.sort((a, b) => rank(a) - rank(b));
    page = 0;
    draw();
  };

  const cell = (row, text, kind) => {
    const made = row.insertCell();
    made.textContent = text;
    if (kind) made.className = kind;
    return made;
  };

  const line = (body, row) => {
    const made = body.insertRow();
    const [status, glyph] = data.statuses[row[STATUS]];
    cell(made, row[ITEM], "n");
    const sign = document.createElement("i");
    sign.textContent = glyph;
    const badge = document.createElement("span");
    badge.className = `status ${status}`;
    badge.append(sign, ` ${status}`);
    cell(made, "").append(badge);
    const name = cell(made, row[FULL] ? "" : row[NAME], "d");
    if (row[FULL]) {
      const link = document.createElement("a");
      link.href = `#i${row[ITEM]}`;
      link.textContent = row[NAME];
      name.append(link);
    }
    if (data.columns.length > 1) cell(made, data.columns[row[COLUMN]], "d");
    cell(made, row[SCORE], "n");
    for (const part of [PROMPT, ANSWER, WHY]) cell(made, row[part], "d").title = row[part];
  };

  const draw = () => {
    const body = document.createElement("tbody");
    const shown = lines.slice(page * SIZE, (page + 1) * SIZE);
    for (const row of shown) line(body, row);
    body.id = "rows";
    find("rows").replaceWith(body);
    const number = (value) => value.toLocaleString("en");
    const all = number(data.rows.length);
    const start = page * SIZE;
    find("range").value = lines.length
      ? `${number(start + 1)}–${number(start + shown.length)} of ${number(lines.length)}`
      : "no answer";
    find("back").disabled = page === 0;
    find("next").disabled = start + SIZE >= lines.length;
    find("count").value = lines.length === data.rows.length ? `${all} answers` : `${number(lines.length)} of ${all} answers`;
    find("none").hidden = lines.length > 0;
  };

  const turn = (by) => {
    const pages = Math.ceil(lines.length / SIZE);
    if (!data || page + by < 0 || page + by >= pages) return;
    page += by;
    draw();
  };

  find("back").addEventListener("click", () => turn(-1));
  find("next").addEventListener("click", () => turn(1));
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || find("keys").open) return;
    if (event.target.closest("input, select, textarea")) return;
    const by = { n: 1, p: -1 }[event.key];
    if (by) turn(by);
  });
  // What is chosen above holds for the cards and for the table.
  find("cards").addEventListener("shown", () => data && filter());
  order.addEventListener("change", () => data && filter());
  unpack().then(
    (found) => {
      data = found;
      find("table").hidden = false;
      find("pages").hidden = false;
      filter();
    },
    () => {
      find("unpacked").hidden = false;
    },
  );
})();
