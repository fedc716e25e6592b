// ---- small tools ----

function make(tag, attributes, ...children) {
  const target = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "text") target.textContent = value;
    else if (name === "on") for (const [event, listener] of Object.entries(value)) target.addEventListener(event, listener);
    else target.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children) if (child !== null && child !== undefined) target.append(child);
  return target;
}
const minus = (text) => text.replace("-", "\u2212");
const fixed = (value, digits) => minus(value.toFixed(digits));
const share = (value) => (value > 0 && value < 0.01 ? "< 1 %" : value > 0.99 && value < 1 ? "> 99 %" : Math.round(100 * value) + " %");
const cosines = (value) => fixed(value, value >= 0.99 && value < 1 ? 4 : 3);
const many = (value) => value.toLocaleString("en-GB");

// Numbers as `pucl.reports.page.schema` says.
function bytes(text) {
  const raw = atob(text);
  const found = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) found[i] = raw.charCodeAt(i);
  return found;
}
const words16 = (text) => new Uint16Array(bytes(text).buffer);
const words32 = (text) => new Uint32Array(bytes(text).buffer);

function options(select, texts, chosen) {
  select.replaceChildren(...texts.map((text, value) => make("option", { value, text })));
  select.value = String(chosen);
}

// Offers a text as a file. It is made here, so that it works without a server.
function download(name, type, text) {
  const link = make("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
