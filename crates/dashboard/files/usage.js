// CPU and memory that nodes and Pods use, for which their members are asked when somebody looks.
// @ts-check
import { h } from './dom.js';
import { bytes, cores } from './format.js';
import { bar, clusterLink, failure, none, notes, pages, table, tools } from './parts.js';

/**
 * @param {import('./app.js').Context} context
 * @param {string} path Of the view.
 * @param {string} what Heading of the names.
 * @param {string} cli What shows the same.
 * @param {boolean} alone True on a page of its own, whose address says how rows are filtered and sorted.
 */
export function usage(context, path, what, cli, alone) {
  const { value, failed, asked } = context.once('usage', path);
  const again = h('p', { key: 'usage-again' }, h('button', { click: () => context.again('usage'), disabled: asked }, 'Ask again'));
  if (failed) return [failure(failed), again];
  if (!value) return h('p', { class: 'quiet', role: 'status', key: 'usage-asking' }, 'Asking for what is used …');
  if (!value.total) return [notes(value.notes), none('Nothing reports what it uses: members need metrics.k8s.io for that.', cli), again];
  const part = (/** @type {any} */ row, /** @type {string} */ field, /** @type {(number: number) => string} */ text) =>
    (row.of ? bar(row.used[field], 0, row.of[field], text) : text(row.used[field]));
  const hasClusters = value.rows.some((/** @type {any} */ row) => row.cluster);
  return [
    notes(value.notes),
    alone ? tools(context, value, 'text') : null,
    table(alone ? context : null, `${what}s by what they use`, [
      { name: what, field: 'name', first: true, cell: (row) => row.name },
      ...(hasClusters ? [{ name: 'Cluster', field: 'cluster', cell: (/** @type {any} */ row) => clusterLink(row.cluster) }] : []),
      { name: 'CPU used', field: 'used.cpuMillis', kind: 'tight', cell: (row) => part(row, 'cpuMillis', cores) },
      { name: 'Memory used', field: 'used.memoryBytes', kind: 'tight', cell: (row) => part(row, 'memoryBytes', bytes) },
    ], value.rows, { key: (row) => `${row.cluster ?? ''}/${row.name}` }),
    alone ? pages(context, value) : null, again,
  ];
}
