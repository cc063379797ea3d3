// Lines over the last hour: one row for each, so that no colour has to tell them apart.
// @ts-check
import { h } from './dom.js';
import { ago } from './format.js';

/** Points are times in milliseconds with values, null where nothing is known. @typedef {{name: string, points: [number, number | null][]}} Line */

const WIDTH = 480, HEIGHT = 32, HOUR = 3_600_000;
/** Rows that are drawn; the rest is a number. */
const ROWS_MAX = 30;

/**
 * @param {[number, number | null][]} points @param {number} from @param {number} to @param {number} top
 */
function path(points, from, to, top) {
  let text = '', open = false;
  for (const [at, value] of points) {
    const x = (Math.min(Math.max((at - from) / (to - from), 0), 1) * WIDTH).toFixed(1);
    if (value === null) {
      if (open) text += `H${x}`;
      open = false;
      continue;
    }
    const y = (HEIGHT - 2 - (value / top) * (HEIGHT - 4)).toFixed(1);
    text += open ? `H${x}V${y}` : `M${x} ${y}`;
    open = true;
  }
  return open ? `${text}H${WIDTH}` : text;
}

/** @param {number} value */
const rounded = (value) => String(Math.round(value * 100) / 100);

/**
 * A table of lines. With `together` they have one scale.
 * @param {string} caption @param {Line[]} lines @param {string | undefined} since @param {boolean} together
 */
export function chart(caption, lines, since, together) {
  if (!since || !lines.length) return null;
  const to = Date.now();
  const from = Math.max(Date.parse(since), to - HOUR);
  if (!(to > from)) return null;
  const known = (/** @type {Line} */ { points }) => points.flatMap(([, value]) => (value === null ? [] : [value]));
  const highest = Math.max(1, ...lines.flatMap(known));
  const drawn = lines.slice(0, ROWS_MAX);
  return h('section', { key: caption, 'aria-label': caption },
    h('h2', null, caption, ' ', h('span', { class: 'quiet' }, 'since ', ago(new Date(from).toISOString()))),
    h('table', { class: 'lines' }, h('caption', { class: 'hidden' }, caption),
      h('thead', null, h('tr', null, ['Name', 'Course', 'Now', 'Lowest', 'Highest'].map((name) => h('th', { scope: 'col' }, name)))),
      h('tbody', null, drawn.map((line) => {
        const values = known(line), last = line.points.at(-1)?.[1];
        const [low, high] = [Math.min(...values), Math.max(...values)];
        const says = values.length ? `from ${rounded(low)} to ${rounded(high)}, now ${last === null || last === undefined ? 'not known' : rounded(last)}` : 'not known';
        return h('tr', { key: line.name }, h('th', { scope: 'row' }, line.name),
          h('td', null, h('svg', { class: 'line', viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: 'none', role: 'img', 'aria-label': `${line.name}: ${says}` },
            h('path', { d: path(line.points, from, to, together ? highest : high || 1) }))),
          h('td', { class: 'number' }, last === null || last === undefined ? '–' : rounded(last)),
          h('td', { class: 'number' }, values.length ? rounded(low) : '–'), h('td', { class: 'number' }, values.length ? rounded(high) : '–'));
      }))),
    lines.length > drawn.length ? h('p', { class: 'quiet' }, `and ${lines.length - drawn.length} more`) : null);
}

/**
 * Lines of the placements of a workload, by cluster. What has no replicas is there or not.
 * @param {{at: string, clusters: Record<string, number>}[]} placements
 * @returns {Line[]}
 */
export function byCluster(placements) {
  const names = [...new Set(placements.flatMap(({ clusters }) => Object.keys(clusters)))].sort();
  const counts = placements.some(({ clusters }) => Object.values(clusters).some(Boolean));
  const value = (/** @type {Record<string, number>} */ clusters, /** @type {string} */ name) => (name in clusters ? (counts ? clusters[name] : 1) : 0);
  return names.map((name) => ({ name, points: placements.map(({ at, clusters }) => [Date.parse(at), value(clusters, name)]) }));
}
