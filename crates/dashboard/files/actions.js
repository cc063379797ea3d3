// Buttons that change something: each shows what its verb would do, and the command line, before it is done.
// @ts-check
import { h, patch } from './dom.js';
import { failure } from './parts.js';
import { post, session } from './session.js';

/** @typedef {{title: string, action: string, body?: Record<string, string>}} Act */

/**
 * Buttons for these actions; none where pages only show.
 * @param {Act[]} acts
 */
export function actions(acts) {
  if (!session.writes) return null;
  return h('p', { class: 'actions', key: 'actions' }, acts.map((act) => h('button', { key: act.action, click: () => void ask(act) }, `${act.title} …`)));
}

/** @param {Act} act */
async function ask(act) {
  const host = /** @type {Element} */ (document.getElementById('dialogs'));
  /** The open dialog, whose own attributes are the browser's: only its content is drawn again. @type {HTMLDialogElement | null} */
  let dialog = null;
  const close = () => dialog?.close();
  const show = (/** @type {any[]} */ content, /** @type {any} */ confirm) => {
    const all = h('dialog', { key: act.action, class: 'act', 'aria-labelledby': 'act' }, h('h2', { id: 'act', key: 'title' }, act.title), content,
      h('p', { class: 'actions', key: 'buttons' }, confirm, h('button', { key: 'close', click: close }, confirm ? 'Cancel' : 'Close')));
    if (!dialog) {
      patch(host, [all]);
      dialog = /** @type {HTMLDialogElement} */ (host.firstChild);
      return dialog.showModal();
    }
    patch(dialog, all.kids);
    // A button that goes, or moves, takes the focus with it.
    if (!dialog.contains(document.activeElement)) /** @type {HTMLElement} */ (dialog.querySelector('.actions button:last-child')).focus();
  };
  const refused = (/** @type {any} */ failed) => [failed.printed ? h('pre', { key: 'said', tabindex: '0' }, failed.printed) : null, failure(failed)];
  const waits = (/** @type {string} */ text) => h('p', { class: 'quiet', role: 'status', key: 'waits' }, text);
  const said = (/** @type {any} */ value) => [h('pre', { key: 'said', tabindex: '0' }, value.text || 'nothing to do'), h('p', { key: 'line' }, 'The same is done by ', h('code', null, value.line))];
  show([waits('Asking what it would do …')], null);
  const send = (/** @type {boolean} */ dryRun) => post(`/do/${act.action}`, { ...act.body, dryRun });
  const rehearsed = await send(true);
  const act_ = async () => {
    show([...(rehearsed.value ? said(rehearsed.value) : []), waits('Doing it …')], null);
    const done = await send(false);
    show(done.failed ? refused(done.failed) : [h('p', { role: 'status', key: 'done' }, done.value.underWay ? 'It is under way, and goes on while this program runs.' : 'Done.'), ...said({ ...rehearsed.value, ...done.value })], null);
  };
  if (rehearsed.failed) show(refused(rehearsed.failed), null);
  else show(said(rehearsed.value), h('button', { key: 'confirm', class: 'confirm', click: () => void act_() }, act.title));
}
