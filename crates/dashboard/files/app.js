// The shell: which page is shown, the stream that it follows, and what stands around every page.
// @ts-check
import { h, patch } from './dom.js';
import { span, tick } from './format.js';
import { help, listen, PAGES } from './keys.js';
import { failure } from './parts.js';
import { autoscaler, autoscalers } from './autoscalers.js';
import { cluster } from './cluster.js';
import { events } from './events.js';
import { evictions } from './evictions.js';
import { fleet } from './fleet.js';
import { plan } from './plan.js';
import { policies } from './policies.js';
import { quotas } from './quotas.js';
import { scheduling } from './scheduling.js';
import { identify, session } from './session.js';
import { services } from './services.js';
import { system } from './system.js';
import { workload } from './workload.js';
import { workloads } from './workloads.js';

/**
 * What a page may use.
 * @typedef {object} Context
 * @property {string[]} parts Parts of the path behind the page's name.
 * @property {URLSearchParams} search The query of the address.
 * @property {(change: Record<string, string>, later?: boolean) => void} set Changes the query; empty values leave it.
 *   With `later` the change is made when nothing more is typed.
 * @property {(name: string, path: string) => {value?: any, failed?: any, asked?: boolean}} once What a view answered that
 *   is computed once; it is asked for when the name is new.
 * @property {(name: string) => void} again Asks for it again.
 * @property {() => void} draw Draws the page again.
 * @property {Record<string, any>} memory What the page remembers while it is open.
 *
 * @typedef {object} Page
 * @property {(context: Context) => string} title
 * @property {(context: Context) => string | null} view Query of the view that the page follows; null if it follows none.
 * @property {(context: Context) => string} cli The command line that shows the same.
 * @property {(view: any, context: Context) => any[]} draw
 * @property {(context: Context) => any} [crumb]
 */

/** @type {Record<string, Page>} */
const pages = { '': fleet, workloads, workload, cluster, policies, services, quotas, evictions, events, scheduling, autoscalers, autoscaler, plan, system };
/** Without a word for so long, what is shown is called old. */
const STALE = 15_000;
const TYPING = 250;
/** Where users log in, and the key of the page that they came from. */
const LOGIN = '/login', BACK = 'ironclad-back';

const main = /** @type {HTMLElement} */ (document.getElementById('main'));
const banner = /** @type {HTMLElement} */ (document.getElementById('banner'));
const clock = /** @type {HTMLElement} */ (document.getElementById('clock'));

/** @type {{page: Page, context: Context, source: EventSource | null, query: string | null, view: any, failed: any,
 *   heard: number, changed: number, ended: boolean} | null} */
let open = null;
/** @type {number | undefined} */
let typing;

/** @param {string} path */
function go(path) {
  const to = new URL(path, location.href);
  if (to.href !== location.href) history.pushState(null, '', to);
  show(true);
}

/**
 * Shows the page of the address.
 * @param {boolean} moved True if it is another one than before.
 */
function show(moved) {
  const parts = location.pathname.split('/').slice(1).map(decodeURIComponent);
  const page = pages[parts[0] ?? ''] ?? fleet;
  const same = open && open.page === page && open.context.parts.join('/') === parts.slice(1).join('/') ? open : null;
  if (same) {
    same.context.search = new URLSearchParams(location.search);
  } else {
    open?.source?.close();
    open = { page, context: context(parts.slice(1)), source: null, query: null, view: null, failed: null, heard: Date.now(), changed: 0, ended: false };
    patch(main, []);
  }
  follow();
  draw();
  if (moved && !same) main.focus();
}

/** @param {string[]} parts @returns {Context} */
function context(parts) {
  /** @type {Map<string, {path: string, value?: any, failed?: any, asked?: boolean}>} */
  const answers = new Map();
  const ask = async (/** @type {string} */ name, /** @type {string} */ path) => {
    const before = answers.get(name);
    const answer = { ...(before?.path === path ? before : {}), path, asked: true };
    answers.set(name, answer);
    try {
      const response = await fetch(path, { headers: { accept: 'application/json' } });
      const text = await response.text();
      const found = response.headers.get('content-type') === 'application/json' ? JSON.parse(text) : { status: response.status, what: text.trim() };
      answers.set(name, response.ok ? { path, value: found } : { path, failed: found });
    } catch (error) {
      answers.set(name, { path, failed: { status: 0, what: 'the program that serves this page does not answer', because: [String(error)] } });
    }
    draw();
  };
  const self = {
    parts,
    search: new URLSearchParams(location.search),
    memory: {},
    draw,
    once(/** @type {string} */ name, /** @type {string} */ path) {
      if (answers.get(name)?.path !== path) void ask(name, path);
      return answers.get(name) ?? {};
    },
    again(/** @type {string} */ name) {
      const path = answers.get(name)?.path;
      if (path && !answers.get(name)?.asked) void ask(name, path);
      draw();
    },
    set(/** @type {Record<string, string>} */ change, /** @type {boolean | undefined} */ later) {
      for (const [key, value] of Object.entries(change)) value ? self.search.set(key, value) : self.search.delete(key);
      const text = self.search.toString();
      const apply = () => {
        history.replaceState(null, '', text ? `?${text}` : location.pathname);
        show(false);
      };
      clearTimeout(typing);
      if (later) typing = setTimeout(apply, TYPING);
      else apply();
    },
  };
  return self;
}

/** Opens the stream of the page: one at a time. */
function follow() {
  const state = open;
  if (!state) return;
  const query = state.page.view(state.context);
  if (query === state.query) return;
  // What belongs to another view is not shown as if it were of this one.
  if (query?.split('&')[0] !== state.query?.split('&')[0]) state.view = state.failed = null;
  state.source?.close();
  state.query = query;
  state.source = null;
  state.heard = Date.now();
  if (!query) return;
  const source = new EventSource(`/stream?${query}`);
  state.source = source;
  const heard = (/** @type {MessageEvent} */ event) => {
    state.heard = Date.now();
    state.ended = false;
    return JSON.parse(event.data);
  };
  source.addEventListener('view', (event) => {
    state.view = heard(event).view;
    state.failed = null;
    state.changed = Date.now();
    if (open === state) draw();
  });
  source.addEventListener('failed', (event) => {
    state.failed = heard(event).failed;
    if (open === state) draw();
  });
  source.addEventListener('beat', (event) => void heard(event));
  source.addEventListener('error', () => {
    state.ended = source.readyState === EventSource.CLOSED;
    second();
  });
}

function draw() {
  const state = open;
  if (!state) return;
  const { page, context, view, failed } = state;
  const title = page.title(context);
  document.title = `${title} · Ironclad`;
  patch(/** @type {Element} */ (document.getElementById('nav')), [h('ul', null, PAGES.map(([, path, name]) => h('li', null,
    h('a', { href: path, 'aria-current': path === (location.pathname || '/') ? 'page' : null }, name))))]);
  const loading = !view && !failed && page.view(context) !== null;
  patch(main, [
    page.crumb ? h('p', { class: 'crumb', key: 'crumb' }, page.crumb(context)) : null,
    h('h1', { key: 'title' }, title),
    commandLine(page.cli(context)),
    failed ? failure(failed) : null,
    loading ? h('p', { class: 'quiet', role: 'status', key: 'loading' }, 'Loading …') : null,
    ...(loading || (failed && !view) ? [] : page.draw(view, context).flat(Infinity)),
  ].filter((node) => node !== null && node !== undefined && node !== false));
  second();
}

/** @param {string} line */
function commandLine(line) {
  const copy = async (/** @type {any} */ event) => {
    const button = event.currentTarget;
    await navigator.clipboard.writeText(line);
    const label = button.firstChild;
    label.data = 'Copied';
    setTimeout(() => { label.data = 'Copy as CLI'; }, 1200);
  };
  return h('div', { class: 'cli', key: 'cli' }, h('code', { id: 'cli' }, line), h('button', { click: copy }, 'Copy as CLI'));
}

/** What changes with the time alone. */
function second() {
  tick();
  const state = open;
  if (!state) return;
  const age = Date.now() - state.heard;
  const expired = session.login && state.failed?.status === 401;
  let text = '';
  if (state.ended || expired) text = `This page does not get any news: the session has ended, or too many pages are open. ${session.login ? '' : 'Open the address that the program printed last.'}`;
  else if (state.source && age > STALE) text = `What is shown is ${span(age)} old: the program, or the control plane, has not answered since.`;
  else if (state.source?.readyState === EventSource.CONNECTING && age > 3000) text = `Connecting again: what is shown is ${span(age)} old.`;
  const again = session.login && (state.ended || expired) ? [h('a', { href: LOGIN }, 'Log in again')] : [];
  patch(banner, text ? [text, ...again] : []);
  const live = state.source && !text;
  patch(clock, live && state.changed ? [`live, changed ${span(Date.now() - state.changed)} ago`] : []);
}

/** Shows who has the session. Where users log in, a browser without one is sent to the page for that. */
async function greet() {
  const response = await identify();
  if (response.status === 401 && response.headers.has('www-authenticate')) {
    sessionStorage.setItem(BACK, location.pathname + location.search);
    location.assign(LOGIN);
  }
  if (!response.ok) return;
  draw();
  if (!session.login) return;
  const leave = async () => {
    await fetch('/logout', { method: 'POST', redirect: 'manual' });
    location.assign(LOGIN);
  };
  const who = document.createElement('span');
  patch(who, [h('span', { class: 'user' }, session.user ?? ''), ...(session.logout ? [h('button', { click: leave }, 'Log out')] : [])]);
  document.querySelector('header')?.append(who);
  const back = sessionStorage.getItem(BACK);
  sessionStorage.removeItem(BACK);
  if (back && location.pathname === '/') {
    history.replaceState(null, '', new URL(back, location.origin).pathname + new URL(back, location.origin).search);
    show(true);
  }
}

document.addEventListener('click', (event) => {
  const link = event.target instanceof Element ? event.target.closest('a') : null;
  if (!link || event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  if (link.origin !== location.origin || link.pathname === LOGIN || link.getAttribute('href')?.startsWith('#')) return;
  event.preventDefault();
  go(link.href);
});
addEventListener('popstate', () => show(true));
// A browser keeps pages that were left, and their connections: six of them, and it asks this host nothing more.
addEventListener('pagehide', () => {
  open?.source?.close();
  if (open) open.query = null;
});
addEventListener('pageshow', (event) => {
  if (event.persisted) show(false);
});
setInterval(second, 1000);
listen(go);
document.getElementById('clock')?.after(Object.assign(document.createElement('button'), { textContent: 'Keys', onclick: help }));
show(false);
greet().catch(() => {});
