// Draws a memory plan: boxes of live range x offset, live curves, and the table of the selected step.
// Names come from models and are untrusted: the script adds them as text nodes and as text on the
// canvas only. The page contains this file without indentation and comment lines. Line ends stay, and
// so statements end at them.
(() => {
"use strict";
const $ = id => document.getElementById(id);
const data = JSON.parse($("plan").textContent), canvas = $("canvas"), ctx = canvas.getContext("2d"), tip = $("tip"), search = $("search");
const LEFT = 96, STRIP = 26, SANS = "11px system-ui, sans-serif", MONO = "11px ui-monospace, monospace";
let plan, bands, colors, from, to, width, step, focus, pinned, drag, hits, timed;

const {min, max, floor, ceil} = Math;
const make = (tag, text = "", cls = "") => Object.assign(document.createElement(tag), {textContent: text, className: cls});
const grouped = n => n.toLocaleString("en");
const size = n => {
  if (n < 1024) return n + " B";
  let k = -1;
  do { n /= 1024; k++; } while (n >= 1023.95 && k < 5);
  return n.toFixed(1) + " " + "KMGTPE"[k] + "iB";
};

const time = ns => ns < 1e3 ? ns + " ns" : ns < 1e6 ? (ns / 1e3).toFixed(1) + " us" : ns < 1e9 ? (ns / 1e6).toFixed(3) + " ms" : (ns / 1e9).toFixed(3) + " s";

// Convert rows to objects, and link owners with their tensors.
const named = keys => row => Object.fromEntries(keys.map((key, i) => [key, row[i]]));
for (const p of data.plans) {
  p.tensors = p.tensors.map(named(data.tensor));
  for (const space of p.spaces) space.owners = space.owners.map((row, index) => {
    const o = named(data.owner)(row);
    o.all = o.all.map(t => p.tensors[t]);
    for (const t of o.all) t.owner = o;
    return Object.assign(o, {t: o.all[0], index, space});
  });
  p.decisions = p.decisions.map(named(data.decision));
  p.repeats = new Set(p.decisions.filter(d => d.way == "recompute").map(d => d.step));
  // Rows of the timeline: operators, and each used direction of each link. The last entry of `issued`
  // is the end.
  const rows = p.rows = [{name: "operators", steps: []}], route = new Map();
  for (const [near, far, store, load] of p.transfers) route.set(store, near + " \u2192 " + far).set(load, far + " \u2192 " + near);
  for (const [from, to, step] of p.fetches) route.set(step, from + " \u2192 " + to);
  p.times.forEach((_, s) => {
    const name = route.get(s) || "operators";
    if (!rows.some(r => r.name == name)) rows.push({name, steps: []});
    rows.find(r => r.name == name).steps.push(s);
  });
  p.end = p.times.reduce((end, t) => max(end, t[1]), 0);
  p.issued.push(p.end);
}

// The axis counts steps, or nanoseconds if the plan has a timeline. `when` converts (fractional) steps
// to the axis, `back` converts times to steps.
const when = s => {
  if (!timed) return s;
  const i = max(0, min(plan.steps.length - 1, floor(s))), a = plan.issued[i];
  return a + (plan.issued[i + 1] - a) * (s - i);
};
const back = ns => {
  let lo = 0, hi = plan.issued.length - 1;
  while (hi - lo > 1) { const mid = (lo + hi) >> 1; if (plan.issued[mid] <= ns) lo = mid; else hi = mid; }
  const a = plan.issued[lo], b = plan.issued[hi];
  return lo + (b > a ? min(1, (ns - a) / (b - a)) : 0);
};
const onAxis = v => LEFT + (v - when(from)) / (when(to) - when(from) || 1) * width;
const X = s => onAxis(when(s));
const atTime = ns => timed ? onAxis(ns) : X(back(ns));
const inside = s => max(0, min(plan.steps.length - 1, s));
const stepAt = x => {
  const v = when(from) + (x - LEFT) / width * (when(to) - when(from));
  return inside(floor(timed ? back(v) : v));
};
const isLive = (o, s) => o.live.some(([a, b]) => a <= s && s < b);
const node = s => plan.steps[s] ? plan.steps[s][0] + " (" + plan.steps[s][1] + ")" : "";

// Returns the description of a tensor: all lines if it is pinned, the first lines if the pointer is on
// it.
function about(t) {
  const o = t.owner, rest = o.all.filter(one => one != t);
  return [
    ["Type", t.dtype + " [" + t.shape.join(", ") + "]"],
    ["Size", size(t.bytes) + ", " + t.cls],
    ["Live", "steps " + t.start + " to " + (t.end - 1)],
    [t.cls == "scratch" ? "Used by" : "Made by", t != o.t || o.made != null ? node(t.start) : "the caller"],
    t.of && [t.kind == "view" ? "View of" : "Written over", t.of],
    t.again && ["Repeats", t.again],
    plan.times.length && t.of == 0 && o.made != null && ["Takes", time(plan.times[t.start][1] - plan.times[t.start][0])],
    ["Last step", node(t.end - 1)],
    ["Place", o.space.name + " + " + grouped(t.offset) + ", " + grouped(t.bytes) + " bytes"],
    rest.length && ["Same bytes", rest.slice(0, 20).map(one => one.name).join(", ") + (rest.length > 20 ? ", \u2026" : "")],
  ].filter(Boolean);
}

function show(next) {
  plan = next;
  step = plan.spaces.length ? plan.spaces[0].step : 0;
  for (const b of $("switch").children) b.ariaPressed = b.textContent == plan.name;
  $("axis").hidden = !plan.times.length;
  timed &&= plan.times.length > 0;
  decided();
  pin(aliveNow().map(o => o.t)[0]);
  whole();
  find();
}
function find() {
  const text = search.value.toLowerCase();
  hits = text ? new Set(plan.tensors.filter(t => t.name.toLowerCase().includes(text))) : null;
  $("found").textContent = hits ? hits.size + " found" : "";
  refresh();
}

function draw() {
  const style = getComputedStyle(document.body), scale = devicePixelRatio;
  colors = name => style.getPropertyValue("--" + name);
  let y = 24;
  bands = [];
  for (const kind of ["boxes", "curve"]) plan.spaces.forEach((space, i) => {
    const height = kind == "boxes" ? i ? 110 : 330 : i ? 60 : 110, last = i + 1 == plan.spaces.length;
    const near = [space.budget, space.capacity].filter(v => v <= space.peak * 1.6);
    const top = kind == "boxes" ? space.arena : 1.08 * max(space.peak, space.bound, ...near);
    const base = y + height, b = {space, kind, y, base, height, last, top: top || 1, Y: v => base - v / b.top * height};
    bands.push(b);
    // Arrows have their own strip, above the next title.
    y = base + (last ? 50 : kind == "boxes" && plan.transfers.length ? 30 + STRIP : 30);
  });
  if (plan.times.length) {
    bands.push({kind: "rows", y, base: y + plan.rows.length * 22, height: plan.rows.length * 22, last: true});
    y += plan.rows.length * 22 + 50;
  }
  width = max(50, canvas.clientWidth - LEFT - 20);
  canvas.width = canvas.clientWidth * scale;
  canvas.height = (y -= 24) * scale;
  canvas.style.height = y + "px";
  ctx.scale(scale, scale);
  for (const b of bands) {
    frame(b);
    ctx.save();
    path([]);
    ctx.rect(LEFT, b.y - 1, width, b.height + 2);
    ctx.clip();
    ({boxes, curve, rows})[b.kind](b);
    ctx.restore();
  }
  plan.transfers.forEach(arrows);
  // Draw titles last, so that they cover arrows to a third space.
  bands.forEach(head);
  if (step >= from && step < to) line(X(step + .5), 14, X(step + .5), y - 26, "accent");
  if (drag && drag.end != drag.start) {
    ctx.fillStyle = colors("area");
    ctx.fillRect(drag.start, 14, drag.end - drag.start, y - 40);
  }
}
const path = points => { ctx.beginPath(); for (const [x, y] of points) ctx.lineTo(x, y); };
const pen = (color, w, dash = []) => { ctx.strokeStyle = colors(color); ctx.lineWidth = w; ctx.setLineDash(dash); };
const fill = color => { ctx.fillStyle = colors(color); ctx.fill(); };
function line(x0, y0, x1, y1, color, dash) {
  path([[x0, y0], [x1, y1]]);
  pen(color, 1, dash);
  ctx.stroke();
}
function label(text, x, y, align, color, font = SANS) {
  ctx.font = font;
  ctx.textAlign = align;
  ctx.fillStyle = colors(color);
  ctx.fillText(text, x, y);
}
// Draws a title with its own background and, for a curve, its marks.
function head(b) {
  const text = b.kind == "rows" ? "modelled time " + time(plan.end) : b.space.name + (b.kind == "boxes" ? ", arena " + size(b.space.arena) : ", live bytes");
  ctx.font = "600 " + SANS;
  ctx.fillStyle = colors("panel");
  ctx.fillRect(LEFT - 4, b.y - 21, ctx.measureText(text).width + 8, 17);
  label(text, LEFT, b.y - 9, "left", "ink", "600 " + SANS);
  if (b.kind == "curve") marks(b);
}
// Draws the axis with ticks at round numbers: powers of two in bytes, or 1, 2, 5 x 10^k steps.
function frame(b) {
  const {base} = b, least = (when(to) - when(from)) / max(2, width / 90), power = 10 ** floor(Math.log10(max(least, 1)));
  if (b.kind == "rows") plan.rows.forEach((row, i) => {
    const short = row.name.length > 13 ? row.name.slice(0, 12) + "\u2026" : row.name;
    label(short, LEFT - 9, b.y + i * 22 + 14, "right", "soft");
  });
  else for (let v = 0, by = 2 ** ceil(Math.log2(max(1, b.top / b.height * 44))); v <= b.top; v += by) {
    line(LEFT, b.Y(v), LEFT + width, b.Y(v), "grid");
    label(size(v).replace(".0", ""), LEFT - 9, b.Y(v) + 4, "right", "soft");
  }
  for (let by = [1, 2, 5, 10].map(k => k * power).find(k => k >= least) || 1, s = ceil(when(from) / by) * by; s < when(to); s += by) {
    line(onAxis(s), base, onAxis(s), base + 4, "soft");
    if (b.last) label(timed && s ? time(s).replace(/\.0+ /, " ") : s, onAxis(s), base + 17, "center", "soft");
  }
  if (b.last) label(timed ? "time" : "step", LEFT - 14, base + 17, "right", "soft");
  line(LEFT, base + .5, LEFT + width, base + .5, "soft");
}
function boxes(b) {
  const tile = make("canvas"), c = tile.getContext("2d");
  tile.width = tile.height = 6;
  c.strokeStyle = colors("panel");
  for (const d of [-6, 0, 6]) { c.moveTo(d, 6); c.lineTo(d + 6, 0); }
  c.stroke();
  const hatch = ctx.createPattern(tile, "repeat");
  for (const o of b.space.owners) {
    const lit = !hits || o.all.some(t => hits.has(t)), color = colors(o.t.cls);
    for (const [start, end] of o.live) {
      if (end < from || start > to) continue;
      const x = X(start), w = X(end) - x, y = b.Y(o.offset + o.bytes), h = max(b.Y(o.offset) - y, .6);
      // Vary the colors of neighbors of one class slightly, so that they differ without lines between
      // them.
      ctx.globalAlpha = lit ? 1 - o.index % 3 * .11 : .13;
      for (const fill of o.t.again ? [color, hatch] : [color]) {
        ctx.fillStyle = fill;
        ctx.fillRect(x, y + (h > 3) / 2, w - (w > 3), h - (h > 3));
      }
      ctx.globalAlpha = lit ? .8 : .2;
      for (const t of o.all.slice(1)) part(b, o, t, h);
      ctx.globalAlpha = lit ? 1 : .3;
      name(o.t, x, w, y + h / 2, h);
    }
  }
  ctx.globalAlpha = 1;
  for (const t of hits || []) outline(b, t, "ink", 1);
  if (focus) outline(b, focus, "ink", 1.5);
  if (pinned) outline(b, pinned, "accent", 2.5);
}
// Draws a sub-view of an owner as a frame, and a tensor that takes over all bytes as a line at its
// start.
function part(b, o, t, tall) {
  const x = X(t.start), w = X(t.end) - x, y = b.Y(t.offset + t.bytes), h = b.Y(t.offset) - y;
  if (w < 5) return;
  if (t.bytes == o.bytes) return line(x, y + 1, x, y + h - 1, "panel", [3, 3]);
  pen("panel", 1);
  ctx.strokeRect(x + 1.5, y + 1.5, w - 4, max(0, h - 3));
  if (t.start > o.live[0][0] || h * 2.2 < tall) name(t, x, w, y + h / 2, h);
}
function name(t, x, w, y, h) {
  const left = max(x, LEFT), fit = floor((min(x + w, LEFT + width) - left - 12) / 6.7);
  if (h > 15 && fit > 4) label(t.name.length > fit ? "\u2026" + t.name.slice(1 - fit) : t.name, left + 6, y + 4, "left", "name", MONO);
}
function outline(b, t, color, w) {
  if (t.owner.space != b.space) return;
  pen(color, w);
  ctx.strokeRect(X(t.start), b.Y(t.offset + t.bytes), max(2, X(t.end) - X(t.start) - 1), max(2, t.bytes / b.top * b.height));
}
function curve(b) {
  const base = b.base + 2, points = [[X(floor(from)), base]];
  for (let s = floor(from); s < to; s++) for (const x of [X(s), X(s + 1)]) points.push([x, b.Y(b.space.live[s] || 0)]);
  path([...points, [X(ceil(to)), base]]);
  fill("area");
  pen("transient", 1.25);
  ctx.stroke();
}
function marks(b) {
  let x = LEFT + width;
  for (const [word, dash] of [["peak", [1, 3]], ["budget", [12, 3]], ["bound", [6, 4]], ["capacity", []]]) {
    const v = b.space[word];
    if (v == null) continue;
    if (v <= b.top) line(LEFT, b.Y(v), LEFT + width, b.Y(v), word, dash);
    const text = word + " " + size(v) + (v > b.top ? " \u2191" : "");
    ctx.font = SANS;
    const wide = ctx.measureText(text).width;
    // On a narrow page the title keeps its place.
    if (x - wide < LEFT + 8 * (b.space.name.length + 12)) continue;
    label(text, x, b.y - 9, "right", word);
    x -= wide + 16;
  }
}
// Draws operators and links as rows of bars. Recomputing steps are hatched.
function rows(b) {
  b.longest = plan.rows[0].steps.reduce((most, s) => max(most, plan.times[s][1] - plan.times[s][0]), 0);
  plan.rows.forEach((row, i) => {
    let end = 0;
    for (const s of row.steps) {
      const [start, stop] = plan.times[s], x = i ? atTime(start) : X(s), w = (i ? atTime(stop) : timed ? onAxis(stop) : X(s + 1)) - x;
      // Merge bars that are too narrow to be visible with their neighbors.
      if (x + w < LEFT || x > LEFT + width || (x + w < end && timed && !plan.repeats.has(s))) continue;
      end = max(x + w, x + .7);
      ctx.globalAlpha = i ? .9 : s % 2 ? .62 : .8;
      ctx.fillStyle = colors(i ? "away" : plan.repeats.has(s) ? "accent" : "transient");
      // If the axis counts steps, all bars have one width. The height shows the time, relative to the
      // longest operator.
      const tall = i || timed ? 14 : 1 + 13 * (stop - start) / (b.longest || 1);
      ctx.fillRect(x, b.y + i * 22 + 18 - tall, end - x, tall);
      ctx.globalAlpha = 1;
    }
  });
}
// Draws arrows for a tensor's move to another space and back.
function arrows([near, far, store, load]) {
  const band = name => bands.find(b => b.kind == "boxes" && b.space.name == name), a = band(near), z = band(far);
  if (a && z) for (const [s, one, other] of [[store, a, z], [load, z, a]]) if (s >= from && s < to) {
    const x = X(s + .5), down = one.y < other.y, title = 24;
    const [y0, y1, tail] = down ? [one.base + 4, other.y - title, other.y - title - 6] : [one.y - title, other.base + 4, other.base + 10];
    line(x, y0, x, y1, "away");
    path([[x, y1], [x - 4, tail], [x + 4, tail]]);
    fill("away");
  }
}

// Returns the step at the pointer and, of the tensors in the bytes there, the last one written.
function at(x, y) {
  const b = bands.find(b => y >= b.y - 4 && y <= b.base + 4);
  if (!b || x < LEFT || x > LEFT + width) return {};
  if (b.kind == "rows") {
    const row = plan.rows[floor((y - b.y) / 22)], s = row && row.name != "operators"
      ? row.steps.find(s => atTime(plan.times[s][0]) <= x && x <= atTime(plan.times[s][1])) : stepAt(x);
    return s === undefined ? {} : {b, s, t: null};
  }
  const s = stepAt(x), v = (b.base - y) / b.height * b.top, under = t => v >= t.offset && v < t.offset + t.bytes;
  const o = b.kind == "boxes" && b.space.owners.find(o => isLive(o, s) && under(o));
  const t = o ? o.all.filter(t => under(t) && t.start <= s && s < t.end).sort((p, q) => q.start - p.start)[0] || o.t : null;
  return {b, s, t};
}
function pin(t) {
  pinned = t;
  $("name").textContent = t ? t.name : "No tensor pinned";
  $("details").replaceChildren(...(t ? about(t) : []).flatMap(([k, v]) => [make("dt", k), make("dd", v)]));
}
// The page lists the owners of a space in this order: largest first, then by offset.
const aliveNow = () => plan.spaces.flatMap(s => s.owners.filter(o => isLive(o, step)));
function table() {
  const where = plan.spaces.filter(s => s.step == step && s.peak).map(s => s.name).join(" and ");
  $("heading").textContent = "Alive at " + (where && "the peak of " + where + ", ") + "step " + step + ": " + node(step);
  const alive = aliveNow(), rows = alive.slice(0, 100).map(o => {
    const row = make("tr", "", pinned?.owner == o ? "on" : ""), part = (o.bytes / (o.space.live[step] || 1) * 100).toFixed(1);
    const share = make("td", part + " %", "num"), cls = make("td", o.t.cls + (plan.spaces.length > 1 ? " in " + o.space.name : ""));
    share.style = "--part:" + part;
    cls.style = `--class:var(--${o.t.cls})`;
    row.append(make("td", size(o.bytes), "num"), share, make("td", o.t.name), cls, make("td", plan.steps[o.made]?.[1]),
      make("td", o.live[0][0] + "\u2013" + (o.live.at(-1)[1] - 1), "num"), make("td", grouped(o.offset), "num"));
    row.onclick = () => { pin(o.t); refresh(); };
    return row;
  });
  $("rows").replaceChildren(...rows);
  $("more").textContent = rows.length + " of " + alive.length + " tensors";
}

// Fills the table of decisions, largest saving first.
function decided() {
  const sorted = [...plan.decisions].sort((p, q) => q.bytes - p.bytes || p.step - q.step);
  $("decided").hidden = !sorted.length;
  $("decisions").replaceChildren(...sorted.slice(0, 200).map(d => {
    const row = make("tr"), space = plan.spaces.find(s => s.name == d.space), known = text => make("td", d.bytes ? text : "\u2013", "num");
    const over = space && d.otherwise > (space.budget ?? space.capacity ?? Infinity) ? "num over" : "num";
    row.append(known(size(d.bytes)), make("td", d.far ? "moved to " + d.far : "recomputed"), make("td", d.tensor), known(d.start + "\u2013" + (d.end - 1)),
      make("td", d.cost == null ? "?" : time(d.cost), "num"), make("td", d.waited ? time(d.waited) : "", "num"), known(size(d.peak)), known(size(d.otherwise)));
    if (d.bytes) row.lastChild.className = over;
    row.onclick = () => { if (d.again != null) pin(plan.tensors[d.again]); whole(); go(d.bytes ? d.start : d.step); };
    return row;
  }));
  const way = w => sorted.filter(d => d.way == w), sum = (list, key) => list.reduce((all, d) => all + (d[key] || 0), 0);
  const again = way("recompute"), moved = way("transfer");
  const takes = (ns, what) => plan.times.length ? ", " + time(ns) + what : "";
  $("fewer").textContent = [again.length && again.length + " recomputed" + takes(sum(again, "cost"), ""),
    moved.length && moved.length + " moved" + takes(sum(moved, "cost"), " on links") + takes(sum(moved, "waited"), " of waiting"),
    sorted.length > 200 && "the first 200 are listed"].filter(Boolean).join("; ");
}

let waiting;
const soon = () => { waiting ||= requestAnimationFrame(() => { waiting = 0; draw(); }); };
const refresh = () => { table(); soon(); };
const go = s => { step = inside(s); refresh(); };
const zoom = (a, b) => { [from, to] = [a, b]; $("reset").hidden = b - a >= plan.steps.length; soon(); };
const whole = () => zoom(0, max(1, plan.steps.length));

canvas.onpointerdown = e => { drag = {start: e.offsetX, end: e.offsetX}; canvas.setPointerCapture(e.pointerId); };
canvas.onpointermove = e => {
  const x = e.offsetX, y = e.offsetY, {b, s, t} = at(x, y);
  if (drag && Math.abs(x - drag.start) > 4) drag.end = x;
  if (drag || focus != (t || null)) soon();
  focus = t || null;
  tip.hidden = !b;
  if (!b) return;
  const rows = t ? about(t).slice(0, 4) : b.space ? [["Live", size(b.space.live[s] || 0) + " in " + b.space.name]]
    : [["Runs", time(plan.times[s][0]) + " to " + time(plan.times[s][1])], ["Takes", time(plan.times[s][1] - plan.times[s][0])]];
  tip.replaceChildren(make("b", t ? t.name : "step " + s + ": " + node(s)), ...rows.map(row => make("div", row.join(" "))));
  tip.style.left = max(4, x + 16 + tip.offsetWidth > canvas.clientWidth ? x - 16 - tip.offsetWidth : x + 16) + "px";
  tip.style.top = y + 22 + "px";
};
canvas.onpointerup = e => {
  const d = drag, {s, t} = at(e.offsetX, e.offsetY);
  drag = null;
  if (d && d.end != d.start) zoom(stepAt(min(d.start, d.end)), stepAt(max(d.start, d.end)) + 1);
  else if (s !== undefined) { pin(t); go(s); }
};
canvas.onpointerleave = () => { focus = null; tip.hidden = true; soon(); };
$("reset").onclick = whole;
$("axis").onclick = () => { timed = !timed; $("axis").ariaPressed = timed; soon(); };
onkeydown = e => {
  const by = {ArrowLeft: -1, ArrowRight: 1}[e.key];
  if (by && e.target == canvas) go(step + by);
  if (e.key == "Escape") { pin(null); search.value = ""; find(); }
};
search.oninput = find;
search.onkeydown = e => {
  if (e.key != "Enter" || !hits?.size) return;
  const list = [...hits], t = list[(list.indexOf(pinned) + 1) % list.length];
  pin(t);
  if (t.start < from || t.start >= to) whole();
  go(t.start);
};
onresize = soon;
matchMedia("(prefers-color-scheme: dark)").onchange = soon;
if (data.plans.length > 1) for (const p of data.plans) {
  const button = make("button", p.name);
  button.onclick = () => show(p);
  $("switch").append(button);
}
show(data.plans[0]);
})();
