// Keys that work on every page, and the list of them.
// @ts-check
import { h, patch } from './dom.js';

/** @type {[string, string, string][]} The second key behind `g`, where it leads to, and the page's name. */
export const PAGES = [
  ['f', '/', 'Fleet'],
  ['w', '/workloads', 'Workloads'],
  ['o', '/policies', 'Policies'],
  ['n', '/services', 'Services'],
  ['u', '/quotas', 'Quotas'],
  ['e', '/evictions', 'Evictions'],
  ['v', '/events', 'Events'],
  ['q', '/scheduling', 'Scheduling'],
  ['a', '/autoscalers', 'Autoscalers'],
  ['p', '/plan', 'Plan'],
  ['s', '/system', 'System'],
];
const SECOND_KEY = 1500;

/** @param {(path: string) => void} go */
export function listen(go) {
  let begun = 0;
  document.addEventListener('keydown', (event) => {
    const target = event.target instanceof HTMLElement ? event.target : null;
    const types = target?.matches('input, select, textarea');
    if (event.key === 'Escape' && types) return target?.blur();
    if (types || event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]')) return;
    const second = Date.now() - begun < SECOND_KEY;
    begun = 0;
    const page = second && PAGES.find(([key]) => key === event.key);
    if (page) {
      event.preventDefault();
      go(page[1]);
    } else if (event.key === 'g') {
      begun = Date.now();
    } else if (event.key === '/') {
      const filter = document.querySelector('input[type="search"]');
      if (filter instanceof HTMLElement) {
        event.preventDefault();
        filter.focus();
      }
    } else if (event.key === '?') {
      event.preventDefault();
      help();
    }
  });
}

/** Shows the keys. */
export function help() {
  const rows = [
    ['/', 'Filter'],
    ...PAGES.map(([key, , name]) => [`g ${key}`, name]),
    ['↑ ↓ ← →', 'In a tree: move, close, open'],
    ['Esc', 'Leave a field, close this'],
    ['?', 'These keys'],
  ];
  const host = /** @type {Element} */ (document.getElementById('dialogs'));
  const close = () => /** @type {HTMLDialogElement} */ (host.firstChild).close();
  patch(host, [
    h('dialog', { 'aria-labelledby': 'keys' },
      h('h2', { id: 'keys' }, 'Keys'),
      h('dl', { class: 'facts' }, rows.map(([key, what]) => [
        h('dt', null, key.split(' ').map((one) => [h('kbd', null, one), ' '])), h('dd', null, what),
      ])),
      h('button', { click: close }, 'Close')),
  ]);
  /** @type {HTMLDialogElement} */ (host.firstChild).showModal();
}
