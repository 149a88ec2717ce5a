/** The entry of the page. */
import './shell/known-language.ts';
import 'uplot/dist/uPlot.min.css';
import './styles/base.css';
import './styles/parts.css';
import './styles/shell.css';
import { render } from 'preact';
import { followChanges } from './api-client.ts';
import { Shell } from './shell/shell.tsx';

// The secret is a cookie by now; an address that is passed on or bookmarked should not have it.
if (location.search) history.replaceState(null, '', `${location.pathname}${location.hash}`);
const root = document.getElementById('page');
if (root) render(<Shell />, root);
followChanges();
