#include "planner/report/html_style.h"

namespace tpplan {

std::string_view page_style() {
  return R"(:root{color-scheme:light dark;--paper:#fff;--ink:#1c1e21;--soft:#57606a;--rule:#d8dee4;--panel:#f5f7f9;--link:#0550ae;--focus:#b35900;--bad:#a40e26}
@media screen and (prefers-color-scheme:dark){:root{--paper:#16181c;--ink:#e6e8eb;--soft:#a0a7b0;--rule:#33383f;--panel:#1f2329;--link:#79b8ff;--focus:#ffb757;--bad:#ff8a8a}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif;overflow-wrap:break-word}
main,nav{max-width:64rem;margin:0 auto;padding:0 1rem}
main:focus{outline:none}
h1{font-size:1.6rem;line-height:1.25;margin:1.25rem 0 .5rem}
h2{font-size:1.25rem;margin:2.5rem 0 .5rem;padding-top:.75rem;border-top:1px solid var(--rule)}
h3{font-size:1rem;margin:1rem 0 .25rem}
p{margin:.5rem 0;max-width:52rem}
a{color:var(--link)}
:focus-visible{outline:3px solid var(--focus);outline-offset:2px}
.skip{position:absolute;left:-100rem;top:0;padding:.5rem 1rem;background:var(--paper);z-index:2}
.skip:focus{left:0}
.unseen{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
nav ol{display:flex;flex-wrap:wrap;gap:.25rem 1rem;list-style:none;margin:0;padding:.5rem 0;font-size:.9rem;border-bottom:1px solid var(--rule)}
nav li,.numbers div{min-width:0;max-width:100%}
.decision{font-size:1.15rem;margin:.5rem 0 1rem;padding:.75rem 1rem;background:var(--panel);border-left:5px solid var(--c2);max-width:none}
.decision.unmet{border-left-color:var(--bad)}
.numbers{display:grid;grid-template-columns:repeat(auto-fit,minmax(12rem,1fr));gap:.75rem;margin:0 0 1rem;padding:0}
.numbers div{padding:.75rem 1rem;border:1px solid var(--rule);border-radius:.5rem}
.numbers dt{color:var(--soft);font-size:.9rem}
.numbers dd{margin:0;font-size:1.7rem;line-height:1.2;font-weight:600;font-variant-numeric:tabular-nums}
.numbers dd small{display:block;font-size:.85rem;font-weight:400;color:var(--soft)}
.numbers dd .unit{font-size:1rem;font-weight:400}
.panel{padding:.25rem 1rem .5rem;background:var(--panel);border-radius:.5rem;margin:0 0 1rem}
.panel .scroll{max-height:15rem;overflow:auto}
.warnings{border-left:5px solid var(--c1);padding-left:1rem;margin:1rem 0}
.warnings p{font-weight:600}
.scroll{overflow-x:auto}
figure{margin:1rem 0 1.5rem}
figure img{max-width:100%;min-width:36rem;height:auto}
figcaption{font-weight:600;margin-bottom:.5rem}
table{border-collapse:collapse;font-size:.9rem;margin:.5rem 0}
th,td{padding:.3rem .7rem;border-bottom:1px solid var(--rule);text-align:left;vertical-align:top}
thead th{position:sticky;top:0;background:var(--paper);vertical-align:bottom}
tbody th{font-weight:400}
.panel thead th{background:var(--panel)}
td.number,th.number{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
td.sentence,tbody th.sentence{min-width:15rem}
.word{white-space:nowrap}
th button{all:unset;cursor:pointer;font-weight:600}
th button:focus-visible{outline:3px solid var(--focus)}
th button::after{content:"\2195";padding-left:.3em;color:var(--soft);font-weight:400}
th[aria-sort=ascending] button::after{content:"\2191";color:var(--ink)}
th[aria-sort=descending] button::after{content:"\2193";color:var(--ink)}
tbody tr:hover{background:var(--panel)}
code,pre{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;font-size:.85rem}
pre{overflow-x:auto;padding:.6rem .8rem;background:var(--panel);border-radius:.4rem;margin:.5rem 0}
pre.command{white-space:pre-wrap}
.csv{margin:.25rem 0 1rem;font-size:.9rem}
.csv summary{cursor:pointer;color:var(--soft)}
.csv pre{max-height:14rem;overflow:auto}
button.copy{font:inherit;padding:.2rem .7rem;border:1px solid var(--rule);border-radius:.4rem;background:var(--paper);color:var(--ink);cursor:pointer;margin:0 0 .25rem}
.notes{color:var(--soft);font-size:.9rem}
.notes ul{padding-left:1.2rem;max-width:52rem}
footer{max-width:64rem;margin:3rem auto 2rem;color:var(--soft);font-size:.85rem;border-top:1px solid var(--rule);padding-top:.5rem}
@media (max-width:40rem){h1{font-size:1.3rem}.numbers dd{font-size:1.4rem}main,nav{padding:0 .75rem}}
@media print{
@page{margin:14mm}
body{font-size:10pt}
nav,.skip,.csv,button.copy{display:none}
th button::after{content:""}
.panel .scroll{max-height:none;overflow:visible}
.scroll{overflow:visible}
.chart{min-width:0;max-width:100%;max-height:120mm}
figure,tr,.numbers,.decision,.panel h2{break-inside:avoid}
h2,h3,figcaption{break-after:avoid}
table{font-size:7.5pt;width:100%}
thead th{position:static}
th,td{padding:.15rem .3rem}
td.number,th.number{white-space:normal}
td,tbody th{overflow-wrap:anywhere}
td.sentence,tbody th.sentence{min-width:0}
.wide{font-size:5pt}
.wide td.sentence{min-width:8em}
.wide th,.wide td{padding:.1rem .1rem;overflow-wrap:anywhere}
.word{white-space:normal}
a{color:inherit;text-decoration:none}
}
)";
}

std::string_view page_script() {
  return R"('use strict';
(() => {
  const said = document.getElementById('said');
  const say = (text) => { said.textContent = text; };
  const key = (row, column) => {
    const cell = row.cells[column];
    if (cell === undefined) return null;
    const value = cell.dataset.value;
    if (value !== undefined) return Number(value);
    const text = cell.textContent.trim();
    if (text === '') return null;
    const number = Number(text.replace(/[,\s%!=]/g, ''));
    return Number.isNaN(number) ? text : number;
  };
  // Numbers before texts, empty cells last whatever the direction.
  const compare = (a, b, direction) => {
    if (a === null || b === null) return (a === null) - (b === null);
    if (typeof a !== typeof b) return typeof a === 'number' ? -1 : 1;
    if (typeof a === 'number') return direction * (a - b);
    return direction * a.localeCompare(b, 'en', {numeric: true});
  };
  const sort = (table, header, column) => {
    const ascending = header.getAttribute('aria-sort') !== 'ascending';
    const body = table.tBodies[0];
    const rows = Array.from(body.rows, (row) => ({row, key: key(row, column)}));
    rows.sort((a, b) => compare(a.key, b.key, ascending ? 1 : -1));
    for (const other of table.tHead.rows[0].cells) other.removeAttribute('aria-sort');
    header.setAttribute('aria-sort', ascending ? 'ascending' : 'descending');
    body.append(...rows.map((entry) => entry.row));
    say('Sorted by ' + header.textContent + (ascending ? ', ascending' : ', descending'));
  };
  for (const table of document.querySelectorAll('table.sortable')) {
    if (table.tBodies[0].rows.length < 2) continue;
    Array.from(table.tHead.rows[0].cells).forEach((header, column) => {
      const button = document.createElement('button');
      button.type = 'button';
      button.append(...header.childNodes);
      header.append(button);
      button.addEventListener('click', () => sort(table, header, column));
    });
  }
  const copied = async (pre) => {
    try {
      await navigator.clipboard.writeText(pre.textContent);
      return true;
    } catch (refused) {
      const range = document.createRange();
      range.selectNodeContents(pre);
      const selection = window.getSelection();
      selection.removeAllRanges();
      selection.addRange(range);
      return document.execCommand('copy');
    }
  };
  for (const details of document.querySelectorAll('details.csv')) {
    const button = document.createElement('button');
    button.type = 'button';
    button.className = 'copy';
    button.textContent = 'Copy CSV';
    button.addEventListener('click', async () => {
      const pre = details.querySelector('pre');
      details.open = true;
      say(await copied(pre) ? 'CSV copied' : 'CSV selected');
      button.textContent = said.textContent;
    });
    details.before(button);
  }
})();
)";
}

}  // namespace tpplan
