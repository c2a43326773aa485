"use strict";
(() => {
  const nodes = JSON.parse(document.getElementById("data").textContent);
  const views = document.querySelector(".views"), facts = document.getElementById("facts");
  const drawings = [...document.querySelectorAll("svg.graph")];
  const shown = () => drawings.find(drawing => drawing.getClientRects().length);
  const made = (tag, text) => Object.assign(document.createElement(tag), {textContent: text});

  function list(pairs) {
    const dl = document.createElement("dl");
    for (const [name, text] of pairs) dl.append(made("dt", name), made("dd", text));
    return dl;
  }

  // What is known of a layer; of one that stands for several, also the error and the time of each.
  function show(box) {
    const numbers = box.dataset.nodes.split(" ").map(Number), node = nodes[numbers[0]];
    facts.replaceChildren(made("h3", node.name), list(node.facts));
    if (numbers.length > 1) {
      const table = document.createElement("table"), head = table.createTHead().insertRow();
      table.className = "small plain";
      for (const name of [`${numbers.length} like it`, "error", "time"]) head.append(made("th", name));
      const body = table.createTBody();
      for (const number of numbers) {
        const row = body.insertRow(), its = new Map(nodes[number].facts);
        row.append(made("th", nodes[number].name));
        for (const name of ["error", "time"]) row.append(made("td", (its.get(name) || "–").split(" (")[0]));
      }
      const scroll = Object.assign(document.createElement("div"), {className: "scroll"});
      scroll.append(table);
      facts.append(scroll);
    }
    document.querySelectorAll(".on").forEach(each => each.classList.remove("on"));
    box.classList.add("on");
    for (const edge of box.ownerSVGElement.querySelectorAll(".edge"))
      if (edge.dataset.from === `${numbers[0]}` || edge.dataset.to === `${numbers[0]}`) edge.classList.add("on");
  }

  const boxOf = (drawing, number) =>
    [...drawing.querySelectorAll(".node")].find(box => box.dataset.nodes.split(" ").includes(`${number}`));

  function go(box) {
    if (!box) return;
    const own = box.getBoundingClientRect(), outer = views.getBoundingClientRect();
    views.scrollBy(own.left + own.width / 2 - outer.left - outer.width / 2, own.top + own.height / 2 - outer.top - outer.height / 2);
    box.focus({preventScroll: true});
    show(box);
  }

  // The size of the drawings, around a point of the window; 0 fits the whole drawing in.
  let scale = 1;
  function resize(next, x, y) {
    const drawing = shown(), outer = views.getBoundingClientRect(), before = drawing.getBoundingClientRect();
    const [width, height] = drawing.getAttribute("viewBox").split(" ").slice(2).map(Number);
    scale = Math.min(3, Math.max(0.05, next || Math.min(views.clientWidth / width, 0.78 * innerHeight / height, 1)));
    x = x ?? outer.left + outer.width / 2, y = y ?? outer.top;
    const across = (x - before.left) / before.width, down = (y - before.top) / before.height;
    for (const each of drawings) {
      const size = each.getAttribute("viewBox").split(" ").slice(2);
      each.setAttribute("width", size[0] * scale), each.setAttribute("height", size[1] * scale);
    }
    const after = drawing.getBoundingClientRect();
    views.scrollBy(after.left + across * after.width - x, after.top + down * after.height - y);
  }

  for (const box of document.querySelectorAll(".node")) {
    box.addEventListener("focus", () => show(box));
    box.addEventListener("click", () => { box.focus({preventScroll: true}); show(box); });
    box.addEventListener("keydown", event => {
      const number = box.dataset.nodes.split(" ")[0], drawing = box.ownerSVGElement;
      const sides = {ArrowDown: ["from", "to"], ArrowUp: ["to", "from"]}[event.key];
      if (!sides) return;
      const edge = [...drawing.querySelectorAll(`.edge[data-${sides[0]}="${number}"]`)].find(each => each.dataset[sides[1]]);
      if (edge) { event.preventDefault(); go(boxOf(drawing, edge.dataset[sides[1]])); }
    });
  }
  views.addEventListener("wheel", event => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    resize(scale * Math.exp(-event.deltaY / 300), event.clientX, event.clientY);
  }, {passive: false});
  views.addEventListener("pointermove", event => {
    if (event.pointerType === "mouse" && event.buttons === 1) views.scrollBy(-event.movementX, -event.movementY);
  });
  document.getElementById("larger").addEventListener("click", () => resize(scale * 1.3));
  document.getElementById("smaller").addEventListener("click", () => resize(scale / 1.3));
  document.getElementById("whole").addEventListener("click", () => { resize(0); views.scrollTo(0, 0); });
  const find = document.getElementById("find");
  let last = -1;
  find.addEventListener("input", () => { last = -1; });
  find.addEventListener("keydown", event => {
    if (event.key !== "Enter" || !find.value) return;
    const fits = nodes.map((node, n) => n).filter(n => nodes[n].name.toLowerCase().includes(find.value.toLowerCase()));
    last = fits.find(n => n > last) ?? fits[0] ?? -1;
    if (last >= 0) { go(boxOf(shown(), last)); find.focus({preventScroll: true}); }
  });
  for (const link of document.querySelectorAll("a[data-node]")) link.addEventListener("click", event => {
    event.preventDefault();
    views.scrollIntoView({block: "nearest"});
    go(boxOf(shown(), link.dataset.node));
  });
  document.querySelectorAll(".scripted").forEach(each => { each.hidden = false; });
})();
