// Parts that several pages have: marks, tables, filters, notes.
// @ts-check
import { h } from './dom.js';
import { ago, bytes, cores, count } from './format.js';

/** @typedef {import('./app.js').Context} Context */

const SHAPES = { Ok: '✓', Waiting: '…', Broken: '✗' };

/**
 * A state by shape, colour and word.
 * @param {'Ok' | 'Waiting' | 'Broken'} state
 * @param {string} word
 */
export function mark(state, word) {
  return h('span', { class: `mark ${state}` }, h('i', { 'aria-hidden': 'true' }, SHAPES[state] ?? '?'), word);
}

/** @type {Record<string, string>} */
export const WORDS = { Ok: 'healthy', Waiting: 'waiting', Broken: 'broken' };

/**
 * Where a template's page is.
 * @param {{namespace: string, type: string, name: string}} row
 */
export function workloadPath(row) {
  return `/workload/${[row.namespace || '-', row.type, row.name].map(encodeURIComponent).join('/')}`;
}

/** @param {string} name */
export function clusterLink(name) {
  return h('a', { href: `/cluster/${encodeURIComponent(name)}` }, name);
}

/**
 * The filter of the server's rows, with their number.
 * @param {Context} context
 * @param {any} view
 * @param {string} example
 * @param {...any} others
 */
export function tools(context, view, example, ...others) {
  const filter = context.search.get('filter') ?? '';
  const matching = filter ? `${view.matching} of ${view.total}` : String(view.total);
  return h('div', { class: 'tools', role: 'search', key: 'tools' },
    h('label', null, 'Filter', h('input', {
      type: 'search', value: filter, placeholder: example, autocomplete: 'off', spellcheck: 'false',
      input: (/** @type {any} */ event) => context.set({ filter: event.target.value, offset: '' }, true),
    })),
    others,
    h('span', { class: 'count', role: 'status' }, `${matching} shown`));
}

/**
 * @typedef {{name: string, field?: string, first?: boolean, kind?: string, cell: (row: any) => any}} Column
 */

/**
 * A table of rows. Those of the server are sorted there, by a click on the heading.
 * @param {Context | null} context null for rows that are in one order only
 * @param {string} caption
 * @param {Column[]} columns
 * @param {any[]} rows
 * @param {{key?: (row: any) => string, group?: (row: any) => string, of?: (rows: any[]) => string,
 *   old?: (row: any) => boolean}} [how]
 */
export function table(context, caption, columns, rows, how = {}) {
  const sort = context?.search.get('sort') ?? '';
  const heading = (/** @type {Column} */ column) => {
    const kind = column.kind === 'number' ? 'number' : null;
    if (!context || !column.field) return h('th', { scope: 'col', class: kind }, column.name);
    const [up, down] = [sort === column.field, sort === `-${column.field}`];
    const next = up ? `-${column.field}` : down ? '' : column.field;
    return h('th', { scope: 'col', class: kind, 'aria-sort': up ? 'ascending' : down ? 'descending' : null },
      h('button', { click: () => context.set({ sort: next, offset: '' }) }, column.name,
        h('span', { 'aria-hidden': 'true' }, up ? ' ▲' : down ? ' ▼' : '')));
  };
  const line = (/** @type {any} */ row, /** @type {number} */ i) => h('tr',
    { key: how.key ? how.key(row) : `row ${i}`, class: how.old?.(row) ? 'old' : null },
    columns.map((column) => (column.first
      ? h('th', { scope: 'row' }, column.cell(row))
      : h('td', { class: column.kind ?? null }, column.cell(row)))));
  const bodies = [];
  if (how.group) {
    /** @type {Map<string, any[]>} */
    const groups = new Map();
    for (const row of rows) groups.set(how.group(row), [...(groups.get(how.group(row)) ?? []), row]);
    for (const [name, members] of groups) {
      const title = h('tr', { class: 'group', key: 'title' },
        h('th', { scope: 'rowgroup', colspan: columns.length }, name || 'not set', ' ',
          h('span', { class: 'quiet' }, how.of?.(members) ?? '')));
      bodies.push(h('tbody', { key: `group ${name}` }, title, members.map(line)));
    }
  } else {
    bodies.push(h('tbody', { key: 'all' }, rows.map(line)));
  }
  return h('div', { class: 'scroll', role: 'region', 'aria-label': caption, tabindex: '0', key: `table ${caption}` },
    h('table', null, h('caption', { class: 'hidden' }, caption),
      h('thead', null, h('tr', null, columns.map(heading))), bodies));
}

/**
 * Goes from page to page of the server's rows.
 * @param {Context} context
 * @param {any} view
 */
export function pages(context, view) {
  if (view.matching <= view.page) return null;
  const last = Math.min(view.offset + view.page, view.matching);
  const to = (/** @type {number} */ offset) => () => context.set({ offset: offset > 0 ? String(offset) : '' });
  return h('nav', { class: 'pages', 'aria-label': 'Pages of rows', key: 'pages' },
    h('button', { click: to(view.offset - view.page), disabled: view.offset === 0 }, 'Previous'),
    h('span', null, `${view.offset + 1} to ${last} of ${view.matching}`),
    h('button', { click: to(view.offset + view.page), disabled: last >= view.matching }, 'Next'));
}

/**
 * Tabs, and the panel of the one that is chosen. The address names it; the first one is that of an address without it.
 * @param {Context} context
 * @param {string} label
 * @param {Record<string, string>} all
 * @param {string} chosen
 * @param {any} content
 */
export function tabs(context, label, all, chosen, content) {
  const names = Object.keys(all);
  const to = (/** @type {string} */ name) => context.set({ tab: name === names[0] ? '' : name, filter: '', sort: '', offset: '', cluster: '', by: '' });
  const press = (/** @type {any} */ event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[/** @type {'ArrowRight'} */ (event.key)];
    if (!step) return;
    const next = names[(names.indexOf(chosen) + step + names.length) % names.length];
    to(next);
    document.getElementById(`tab-${next}`)?.focus();
  };
  return [
    h('div', { class: 'tabs', role: 'tablist', 'aria-label': label, key: 'tabs' }, Object.entries(all).map(([name, title]) => h('button', {
      role: 'tab', id: `tab-${name}`, 'aria-selected': String(name === chosen), 'aria-controls': 'panel', tabindex: name === chosen ? '0' : '-1',
      click: () => to(name), keydown: press,
    }, title))),
    h('div', { role: 'tabpanel', id: 'panel', 'aria-labelledby': `tab-${chosen}`, key: `panel ${chosen}` }, content),
  ];
}

/**
 * What is missing in what is shown.
 * @param {string[] | undefined} all
 */
export function notes(all) {
  if (!all?.length) return null;
  return h('ul', { class: 'notes', 'aria-label': 'What is missing here', key: 'notes' }, all.map((note) => h('li', null, note)));
}

/**
 * True if some of what is shown may not be listed: then nobody can say that there is none.
 * @param {any} view
 */
export function hidden(view) {
  return Boolean(view.notes?.some((/** @type {string} */ note) => note.startsWith('you may not list')));
}

/**
 * Nothing is there, and the command that changes it.
 * @param {string} what
 * @param {string} [command]
 */
export function none(what, command) {
  return h('div', { class: 'none', key: 'none' }, h('p', null, what), command ? h('p', null, 'try: ', h('code', null, command)) : null);
}

/**
 * Why a view could not be computed.
 * @param {{status: number, what: string, because?: string[], try?: string[]}} failed
 */
export function failure(failed) {
  const title = failed.status === 403 ? 'You lack a right for this' : failed.status === 404 ? 'Not found' : failed.printed ? 'Not done' : 'This can not be shown now';
  return h('section', { class: 'failed', role: 'alert', key: 'failed' },
    h('h2', null, title), h('p', null, failed.what),
    (failed.because ?? []).map((line) => h('p', null, `because ${line}`)),
    (failed.try ?? []).map((line) => h('p', null, 'try: ', h('code', null, line))));
}

/**
 * A share of a whole, as numbers and as a bar.
 * @param {number} asked
 * @param {number} waiting
 * @param {number} whole
 * @param {(number: number) => string} text
 */
export function bar(asked, waiting, whole, text) {
  const full = whole > 0 ? ` ${Math.round((100 * asked) / whole)}%` : '';
  return [
    `${text(asked)} of ${text(whole)}`, h('span', { class: 'quiet' }, full),
    waiting > 0 ? h('span', { class: 'mark Waiting' }, ` +${text(waiting)} waiting`) : null,
    stacked(asked, waiting, whole),
  ];
}

/**
 * Two parts of a whole as a bar.
 * @param {number} first
 * @param {number} second
 * @param {number} whole
 */
export function stacked(first, second, whole) {
  const part = (/** @type {number} */ number) => (whole > 0 ? Math.max(0, Math.min(100, (100 * number) / whole)) : 0);
  const [begin, rest] = [part(first), Math.min(part(second), 100 - part(first))];
  return h('svg', { class: 'bar', viewBox: '0 0 100 4', preserveAspectRatio: 'none', 'aria-hidden': 'true' },
    h('rect', { class: 'all', width: '100', height: '4' }),
    h('rect', { class: 'asked', width: begin.toFixed(1), height: '4' }),
    h('rect', { class: 'more', x: begin.toFixed(1), width: rest.toFixed(1), height: '4' }));
}

/** @param {any} capacity */
export function cpu(capacity) {
  if (!capacity) return h('span', { class: 'quiet' }, 'not reported');
  return bar(capacity.requested.cpuMillis, capacity.waiting.cpuMillis, capacity.allocatable.cpuMillis, cores);
}

/** @param {any} capacity */
export function memory(capacity) {
  if (!capacity) return h('span', { class: 'quiet' }, 'not reported');
  return bar(capacity.requested.memoryBytes, capacity.waiting.memoryBytes, capacity.allocatable.memoryBytes, bytes);
}

/**
 * Readiness of a cluster, with its age and its reason.
 * @param {any} row
 */
export function readiness(row) {
  const word = row.leaving ? 'leaving the fleet' : row.ready === 'True' ? 'ready' : row.ready === 'False' ? 'not ready' : 'not known';
  const why = row.ready === 'True' ? null : [row.reason, row.message].filter(Boolean).join(': ');
  return [
    mark(row.state, word), ' ', row.since ? ago(row.since, 'for') : null,
    row.silentSince ? h('span', { class: 'why' }, 'last heard of ', ago(row.silentSince), ': what is shown is as old') : null,
    why ? h('span', { class: 'why' }, why) : null,
  ];
}

/** @param {string[]} taints */
export function tags(taints) {
  return taints.map((taint) => h('span', { class: /:(NoExecute|PreferNoExecute)$/.test(taint) ? 'tag wait' : 'tag' }, taint));
}

/**
 * The rate of evictions and why it is that.
 * @param {any} rate
 * @param {boolean} paused
 */
export function rateLine(rate, paused) {
  if (!rate) return paused ? h('p', { class: 'sum', role: 'alert' }, h('b', null, 'Evictions are paused.')) : null;
  const queued = rate.ready - rate.held;
  const end = queued === 0 ? null : rate.drainedAt ? ['; empty ', ago(rate.drainedAt)] : '; nothing leaves at this rate';
  return h('p', { class: 'sum', key: 'rate' },
    paused ? h('b', { role: 'alert' }, 'Evictions are paused. ') : null,
    'Rate ', h('b', null, `${rate.rate}/s, ${rate.state}`), ` (${rate.because}; ${rate.unhealthy} of ${count(rate.clusters, 'cluster')} unhealthy). `,
    h('b', null, `${queued} queued`), end, `; ${rate.held} held; ${rate.delayed} delayed; ${rate.parked} without a target`);
}

/**
 * Bindings with what is wrong, where they are and how many run.
 * @param {Context} context
 * @param {string} caption
 * @param {any[]} rows
 */
export function bindings(context, caption, rows) {
  /** @type {Column[]} */
  const columns = [
    { name: 'Workload', field: 'name', first: true, cell: (row) => [h('a', { href: workloadPath(row) }, row.name), ' ', h('span', { class: 'quiet' }, row.kind)] },
    { name: 'Namespace', field: 'namespace', kind: 'tight', cell: (row) => row.namespace || '–' },
    { name: 'State', field: 'state', cell: (row) => [mark(row.state, WORDS[row.state]), row.since ? [' ', ago(row.since, 'for')] : null, row.reason ? h('span', { class: 'why' }, row.reason) : null] },
    { name: 'Ready', field: 'ready', kind: 'number', cell: (row) => (row.replicas ? `${row.ready ?? '?'} of ${row.replicas}` : '–') },
    { name: 'Replicas by cluster', field: 'clusters', cell: (row) => places(row) },
    { name: 'Policy', field: 'policy', kind: 'tight', cell: (row) => row.policy || '–' },
    { name: 'Priority', field: 'priority', kind: 'number', cell: (row) => row.priority ?? '–' },
  ];
  return table(context, caption, columns, rows, { key: (row) => `${row.namespace}/${row.binding}` });
}

/** @param {any} row */
function places(row) {
  const one = (/** @type {any} */ place) => h('span', { class: 'tight' },
    mark(place.state, ''), h('span', { class: 'hidden' }, `${WORDS[place.state]}: `), clusterLink(place.name),
    place.replicas ? ` ${place.ready ?? '?'}/${place.replicas}` : null);
  const leaving = (row.leaving ?? []).map((/** @type {string} */ name) => h('span', { class: 'tag wait' }, `leaves ${name}`));
  return row.clusters.length || leaving.length ? h('div', { class: 'places' }, row.clusters.map(one), leaving) : h('span', { class: 'quiet' }, 'no cluster');
}

/**
 * What happened, newest first.
 * @param {Context | null} context
 * @param {string} caption
 * @param {any[]} rows
 */
export function happened(context, caption, rows) {
  return table(context, caption, [
    { name: 'When', field: 'at', kind: 'tight', cell: (row) => [ago(row.at), row.count > 1 ? h('span', { class: 'quiet' }, ` ×${row.count}`) : null] },
    { name: 'Type', field: 'type', kind: 'tight', cell: (row) => (row.type === 'Warning' ? mark('Broken', 'Warning') : row.type) },
    { name: 'Object', field: 'object', cell: (row) => row.object },
    { name: 'Reason', field: 'reason', kind: 'tight', cell: (row) => row.reason },
    { name: 'Message', field: 'message', kind: 'text', cell: (row) => row.message },
  ], rows);
}
