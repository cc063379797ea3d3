// Numbers, amounts and times as people read them.
// @ts-check
import { h } from './dom.js';

/**
 * A span of time: `5s`, `3m12s`, `4h10m`, `2d3h`.
 * @param {number} milliseconds
 */
export function span(milliseconds) {
  const seconds = Math.max(0, Math.floor(milliseconds / 1000));
  const [days, hours, minutes] = [Math.floor(seconds / 86400), Math.floor(seconds / 3600) % 24, Math.floor(seconds / 60) % 60];
  if (days) return `${days}d${hours}h`;
  if (hours) return `${hours}h${minutes}m`;
  if (minutes) return `${minutes}m${seconds % 60}s`;
  return `${seconds}s`;
}

/** @param {string} at @param {string | null} how */
function relative(at, how) {
  const distance = Date.now() - Date.parse(at);
  if (Number.isNaN(distance)) return at;
  if (how === 'for') return `for ${span(distance)}`;
  return distance >= -999 ? `${span(distance)} ago` : `in ${span(-distance)}`;
}

const FULL = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' });

/**
 * A time by its distance from now, which goes on while the page is open.
 * @param {string | null | undefined} at
 * @param {'ago' | 'for'} [how] `for` tells since when something is so.
 */
export function ago(at, how = 'ago') {
  if (!at) return h('span', { class: 'quiet' }, '–');
  const time = Date.parse(at);
  return h('time', { datetime: at, 'data-ago': how, title: Number.isNaN(time) ? null : FULL.format(time) }, relative(at, how));
}

/** Lets the times on the page go on. */
export function tick() {
  for (const element of document.querySelectorAll('time[data-ago]')) {
    const text = relative(element.getAttribute('datetime') ?? '', element.getAttribute('data-ago'));
    const node = element.firstChild;
    if (node instanceof Text && node.data !== text) node.data = text;
  }
}

/** @param {number} millis */
export function cores(millis) {
  const number = millis / 1000;
  return number >= 10 ? number.toFixed(0) : String(Math.round(number * 10) / 10);
}

/** @param {number} bytes */
export function bytes(bytes) {
  const units = ['B', 'Ki', 'Mi', 'Gi', 'Ti', 'Pi'];
  let unit = 0;
  while (bytes >= 1024 && unit < units.length - 1) {
    bytes /= 1024;
    unit += 1;
  }
  return `${bytes >= 10 || unit === 0 ? bytes.toFixed(0) : Math.round(bytes * 10) / 10}${units[unit]}`;
}

/**
 * A number with its noun.
 * @param {number} number
 * @param {string} noun
 * @param {string} [plural]
 */
export function count(number, noun, plural) {
  return `${number} ${number === 1 ? noun : plural ?? `${noun}s`}`;
}

/**
 * A word of a command line, quoted if a shell would read more into it.
 * @param {string} word
 */
export function quoted(word) {
  return /^[A-Za-z0-9_./:=,@%+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
