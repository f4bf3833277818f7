// What assistive technology and eyes need of a page. Run in it by test_page_access.py; each answers with
// what is wrong, in words.
"use strict";

// Names of landmarks, tables and controls; identifiers once; headings without a gap.
function structure() {
  const found = [];
  const note = (what, one) => found.push(what + ": " + one.outerHTML.slice(0, 120));
  if (!document.documentElement.lang) found.push("no language");
  if (!document.title) found.push("no title");
  const seen = new Set();
  for (const one of document.querySelectorAll("[id]")) {
    if (seen.has(one.id)) note("identifier twice", one);
    seen.add(one.id);
  }
  for (const name of ["aria-labelledby", "aria-describedby", "aria-activedescendant", "for"]) {
    for (const one of document.querySelectorAll(`[${name}]`)) {
      if (!document.getElementById(one.getAttribute(name))) note(`${name} of nothing`, one);
    }
  }
  for (const one of document.querySelectorAll("svg")) {
    const hidden = one.closest("[aria-hidden=true]"), silent = !one.querySelector("text");
    if (!hidden && !one.getAttribute("aria-label") && !silent) note("a drawing without a name", one);
  }
  for (const one of document.querySelectorAll("th")) if (!one.scope) note("a head without scope", one);
  for (const one of document.querySelectorAll("table")) if (!one.caption) note("no caption", one);
  for (const one of document.querySelectorAll("[role=option]")) {
    for (const name of ["aria-selected", "aria-posinset", "aria-setsize", "aria-label"]) {
      if (!one.hasAttribute(name)) note(`an option without ${name}`, one);
    }
  }
  for (const one of document.querySelectorAll("[role=slider]")) {
    for (const name of ["aria-valuenow", "aria-valuemin", "aria-valuemax", "aria-valuetext", "aria-label"]) {
      if (!one.getAttribute(name)) note(`a slider without ${name}`, one);
    }
  }
  let level = 0;
  for (const one of document.querySelectorAll("h1, h2, h3, h4")) {
    const own = Number(one.tagName[1]);
    if (own > level + 1) note("a level of headings left out", one);
    level = own;
  }
  if (document.querySelectorAll("h1").length !== 1) found.push("not one h1");
  return found;
}

// Text: 4.5 to 1, large text 3 to 1 (WCAG 1.4.3). Borders of controls, fills that say something:
// 3 to 1 to what is behind them (1.4.11); greys that mean "nothing happens" have a border instead.
function contrast() {
  const found = [];
  const parse = (colour) => {
    const parts = colour.match(/[\d.]+/g).map(Number);
    return parts.length === 3 ? [...parts, 1] : parts;
  };
  const over = (top, under) => [0, 1, 2].map((at) => top[at] * top[3] + under[at] * (1 - top[3])).concat(1);
  const behind = (one) => {
    const colours = [];
    for (let node = one; node; node = node.parentElement) {
      const colour = parse(getComputedStyle(node).backgroundColor);
      colours.push(colour);
      if (colour[3] === 1) break;
    }
    return colours.reverse().reduce((under, top) => over(top, under), [255, 255, 255, 1]);
  };
  const luminance = (colour) => {
    const [r, g, b] = colour.map((part) => (part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (one, other) => {
    const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  const opacity = (one) => {
    let product = 1;
    for (let node = one; node; node = node.parentElement) product *= Number(getComputedStyle(node).opacity);
    return product;
  };
  const check = (one, colour, least, what) => {
    const under = behind(one), parsed = parse(colour);
    const value = ratio(over([...parsed.slice(0, 3), parsed[3] * opacity(one)], under), under);
    if (value < least) found.push(`${what} ${value.toFixed(2)}: ${one.outerHTML.slice(0, 100)}`);
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let texts = 0;
  while (walker.nextNode()) {
    const one = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || one.closest("script, style, option, .skip, :disabled")) continue;
    if (!one.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue;
    const style = getComputedStyle(one), size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    check(one, one instanceof SVGElement ? style.fill : style.color, large ? 3 : 4.5, "text");
    texts += 1;
  }
  if (texts < 100) found.push(`only ${texts} texts were seen`);
  for (const one of document.querySelectorAll("button, select, input[type=search]")) {
    if (!one.closest("th, .leaders")) check(one, getComputedStyle(one).borderTopColor, 3, "border");
  }
  let fills = 0;
  for (const one of document.querySelectorAll("rect, path, .bar i")) {
    const style = getComputedStyle(one);
    for (const name of ["kept", "encoded", "offloaded", "recomputed", "forward", "backward", "recompute"]) {
      if (!one.classList.contains(name) || Number(style.fillOpacity) < 1) continue;
      check(one, style.fill, 3, "fill");
      fills += 1;
    }
    for (const name of ["live-line", "mapped-line", "budget-line", "curve-line"]) {
      if (one.classList.contains(name)) check(one, style.stroke, 3, "line");
    }
    if (one.classList.contains("wait") || one.matches(".area.base")) check(one, style.stroke, 3, "edge");
  }
  if (fills < 8) found.push(`only ${fills} fills were seen`);
  return found;
}
