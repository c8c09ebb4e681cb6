PRAGMA application_id = 8280597;
PRAGMA user_version = 22;
BEGIN TRANSACTION;
CREATE TABLE activities(
          id INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, about TEXT NOT NULL,
          request TEXT NOT NULL, status TEXT NOT NULL, control TEXT NOT NULL, done INTEGER NOT NULL,
          total INTEGER NOT NULL, cost REAL NOT NULL, facts TEXT NOT NULL, messages TEXT NOT NULL,
          message TEXT NOT NULL, code TEXT NOT NULL, created REAL NOT NULL, started REAL, finished REAL);
CREATE TABLE answers(
  id INTEGER PRIMARY KEY AUTOINCREMENT, run INTEGER NOT NULL, seq INTEGER NOT NULL, pos INTEGER NOT NULL,
  cell INTEGER NOT NULL, item INTEGER NOT NULL, turn INTEGER NOT NULL, prompt INTEGER NOT NULL,
  target INTEGER NOT NULL, repeat INTEGER NOT NULL, name TEXT NOT NULL, category TEXT NOT NULL,
  status TEXT NOT NULL DEFAULT 'pending', score REAL, input_tokens INTEGER, output_tokens INTEGER, cost REAL,
  latency_ms REAL, attempts INTEGER NOT NULL DEFAULT 0, from_cache INTEGER NOT NULL DEFAULT 0,
  scripted INTEGER NOT NULL DEFAULT 0, started REAL, code TEXT, preview TEXT NOT NULL DEFAULT '', body INTEGER, ending TEXT NOT NULL DEFAULT '', cached_tokens INTEGER NOT NULL DEFAULT 0, reasoning_tokens INTEGER NOT NULL DEFAULT 0);
INSERT INTO "answers" VALUES(1,1,8,0,0,0,0,0,0,0,'plain','','pass',100.0,NULL,NULL,NULL,4.13723179999578860588e+01,1,0,0,NULL,NULL,'Parcels can be returned within 30 days.',1,'',0,0);
INSERT INTO "answers" VALUES(2,1,7,1,1,1,0,0,0,0,'think','','pass',100.0,NULL,NULL,NULL,3.13088299981245654635e+00,1,0,0,NULL,NULL,'<think>six times seven</think>42',2,'',0,0);
INSERT INTO "answers" VALUES(3,1,9,2,2,2,0,0,0,0,'tools','','pass',100.0,NULL,NULL,NULL,1.18286850002325074628e+01,1,0,0,NULL,NULL,'Order 7 is paid.',5,'',0,0);
CREATE TABLE baselines(
          source TEXT PRIMARY KEY, run INTEGER NOT NULL, author TEXT NOT NULL, time REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE battles(
          id INTEGER PRIMARY KEY AUTOINCREMENT, sides TEXT NOT NULL, judge TEXT NOT NULL, question TEXT NOT NULL,
          criteria TEXT NOT NULL, pairs INTEGER, seed INTEGER, time REAL NOT NULL, cost REAL NOT NULL,
          summary TEXT NOT NULL);
CREATE TABLE bodies(id INTEGER PRIMARY KEY, request TEXT NOT NULL, text TEXT, answer TEXT NOT NULL);
INSERT INTO "bodies" VALUES(1,'{"messages":[{"role":"user","content":"Until when can parcels be returned?"}],"params":{}}','Parcels can be returned within 30 days.','{"diagnostics":{"chunks":["Returns are free for 30 days."]},"latency_ms":41.372317999957886}');
INSERT INTO "bodies" VALUES(2,'{"messages":[{"role":"user","content":"What is six times seven? think"}],"params":{}}','<think>six times seven</think>42','{"latency_ms":3.1308829998124565}');
INSERT INTO "bodies" VALUES(3,'{}','{"reason": "It is.", "score": 5}','{"model":"m","finish_reason":"stop"}');
INSERT INTO "bodies" VALUES(4,'{}','{"reason": "It is.", "score": 5}','{"model":"m","finish_reason":"stop"}');
INSERT INTO "bodies" VALUES(5,'{"messages":[{"role":"user","content":"Is order 7 paid?"}],"params":{},"tools":[{"type":"function","function":{"name":"find","parameters":{"type":"object"}}}]}','Order 7 is paid.','{"tool_calls":[{"id":"c1","name":"find","arguments":"{\"order\": 7}"}],"latency_ms":11.828685000232507,"steps":[{"text":"","calls":[{"id":"c1","name":"find","arguments":"{\"order\": 7}","result":"paid","by":"scripted","ms":0.2}],"latency_ms":3.5836930001096334},{"text":"Order 7 is paid.","calls":[],"latency_ms":8.044992000122875}]}');
INSERT INTO "bodies" VALUES(6,'{}','{"reason": "It is.", "score": 5}','{"model":"m","finish_reason":"stop"}');
INSERT INTO "bodies" VALUES(7,'{}','{"reason": "It is.", "score": 5}','{"model":"m","finish_reason":"stop"}');
INSERT INTO "bodies" VALUES(8,'{}','{"reason": "It is.", "score": 5}','{"model":"m","finish_reason":"stop"}');
INSERT INTO "bodies" VALUES(9,'{}','{"reason": "It is.", "score": 5}','{"model":"m","finish_reason":"stop"}');
INSERT INTO "bodies" VALUES(10,'{}','{"reason": "It is.", "score": 5}','{"model":"m","finish_reason":"stop"}');
INSERT INTO "bodies" VALUES(11,'{}','{"reason": "It is.", "score": 5}','{"model":"m","finish_reason":"stop"}');
CREATE TABLE bouts(
          left INTEGER NOT NULL, right INTEGER NOT NULL, judge TEXT NOT NULL, question TEXT NOT NULL,
          first TEXT, second TEXT, reason TEXT NOT NULL, time REAL NOT NULL,
          PRIMARY KEY(left, right, judge, question)) WITHOUT ROWID;
CREATE TABLE cache(
  key TEXT PRIMARY KEY, recipe TEXT NOT NULL, target TEXT NOT NULL, body INTEGER NOT NULL, created REAL NOT NULL
  , run TEXT NOT NULL DEFAULT '') WITHOUT ROWID;
INSERT INTO "cache" VALUES('6543f947541a7c8bd12087e61d5702c77411451e8f8c0b7ab29f886942a5fa2b','1','judge',7,1.79582962453692793845e+09,'kj5h2m');
INSERT INTO "cache" VALUES('654f616d2120328b7890cbe086c760811dab674092fa323b562a0277dacfc17b','1','judge',10,1.7958296247753839492e+09,'kj5h2m');
INSERT INTO "cache" VALUES('791b32ee381eaeb679da2a6f95eb8c0f859025a1bb81fa8446a00eaa8b171b3c','1','judge',11,1.79582962485237121585e+09,'kj5h2m');
INSERT INTO "cache" VALUES('9838fc99a7de3039ba9ae85b496e4d3aab8e41e426a12687471fca718070e5fe','1','judge',9,1.79582962461712169642e+09,'kj5h2m');
INSERT INTO "cache" VALUES('ad28c6dcecb0b0be05e45bab052d10be3d07d62811f97cd7f4b1f86c467820d7','1','judge',4,1.79582962427734446524e+09,'kj5h2m');
INSERT INTO "cache" VALUES('b9f27e5b2a8ad123bc1d6bf1d3f409e8c86ac47475aa5aaf360f66be1b87cb31','1','judge',3,1.79582962427677345282e+09,'kj5h2m');
INSERT INTO "cache" VALUES('bdf0ada576cbf06c29a39869a32cc324c528bf84e4ca187274c3a3341904bf0c','1','judge',8,1.79582962461518716814e+09,'kj5h2m');
INSERT INTO "cache" VALUES('e3cae653757a0195b3ceec7be03abaaa3422c9e8c84a1e2e5a152f7184737559','1','judge',6,1.79582962453251266483e+09,'kj5h2m');
CREATE TABLE calls(
  id INTEGER PRIMARY KEY, run INTEGER NOT NULL, answer INTEGER, kind TEXT NOT NULL, target TEXT NOT NULL,
  attempt INTEGER NOT NULL, started REAL NOT NULL, latency_ms REAL NOT NULL, input_tokens INTEGER,
  output_tokens INTEGER, cost REAL, code TEXT, message TEXT, from_cache INTEGER NOT NULL, may_cost REAL, cached_tokens INTEGER NOT NULL DEFAULT 0, reasoning_tokens INTEGER NOT NULL DEFAULT 0);
INSERT INTO "calls" VALUES(1,1,1,'target','agent',1,1.79582962321438312528e+09,4.13723179999578860588e+01,NULL,NULL,NULL,NULL,NULL,0,NULL,0,0);
INSERT INTO "calls" VALUES(2,1,2,'target','agent',1,1.79582962325328278534e+09,3.13088299981245654635e+00,NULL,NULL,NULL,NULL,NULL,0,NULL,0,0);
INSERT INTO "calls" VALUES(3,1,3,'target','agent',1,1.79582962325540804867e+09,3.58369300010963343083e+00,NULL,NULL,NULL,NULL,NULL,0,NULL,0,0);
INSERT INTO "calls" VALUES(4,1,3,'target','agent',1,1795829624.25672,8.04499200012287474237e+00,NULL,NULL,NULL,NULL,NULL,0,NULL,0,0);
INSERT INTO "calls" VALUES(5,1,2,'judge','judge',1,1.79582962423987889293e+09,3.6577643999862630153e+01,100,20,0.0,NULL,NULL,0,NULL,0,0);
INSERT INTO "calls" VALUES(6,1,1,'judge','judge',1,1.79582962391450428967e+09,3.62694594000004144618e+02,100,20,0.0,NULL,NULL,0,NULL,0,0);
INSERT INTO "calls" VALUES(7,1,2,'judge','judge',1,1.7958296244558327198e+09,7.29306779999205900821e+01,100,20,0.0,NULL,NULL,0,NULL,0,0);
INSERT INTO "calls" VALUES(8,1,1,'judge','judge',1,1.79582962445815324786e+09,7.84955859999172389507e+01,100,20,0.0,NULL,NULL,0,NULL,0,0);
INSERT INTO "calls" VALUES(9,1,3,'judge','judge',1,1.79582962452722334862e+09,8.74489530001483217347e+01,100,20,0.0,NULL,NULL,0,NULL,0,0);
INSERT INTO "calls" VALUES(10,1,1,'judge','judge',1,1795829624.61343,3.52566400033538229763e+00,100,20,0.0,NULL,NULL,0,NULL,0,0);
INSERT INTO "calls" VALUES(11,1,3,'judge','judge',1,1.79582962472363448147e+09,4.41112570001678250264e+01,100,20,0.0,NULL,NULL,0,NULL,0,0);
INSERT INTO "calls" VALUES(12,1,3,'judge','judge',1,1.79582962483688497539e+09,1.52018959997803904116e+01,100,20,0.0,NULL,NULL,0,NULL,0,0);
CREATE TABLE chain(
  run TEXT NOT NULL, number INTEGER NOT NULL, record TEXT NOT NULL, key TEXT NOT NULL, signature TEXT NOT NULL,
  PRIMARY KEY(run, number)) WITHOUT ROWID;
INSERT INTO "chain" VALUES('kj5h2m',1,'{"about":{},"chain":1,"kind":"end","number":1,"previous":"0000000000000000000000000000000000000000000000000000000000000000","program":"0.2.0","run":"kj5h2m","states":{"about":"b1866c7b2d3d4bc5ebb55e4e7398502144946e5490b665d7d9496c692bbb8846","answers":"eb8d98e384167f274bba9a5f814aebe089a7535bf89691ab77c5fc828a94e986","calls":"987e9f2e16cde5e598f39cc34a40eb42fe6c347b0ddcdf4c4300d3c4c391f7fb","earlier":"1bdcf86a1101fe8a685b5097d3a3eb49afa7a0a0c497ec3069bf5d89365ce67f","labels":"399a1e5c0ed0ee0520f4330a3057bdc2452a13bd610ee04e98edc28b7c8e8601","outcome":"d9415eabe47764e3cc2d54c85096d739289cff0038eb911bc0ecd5d2eaffc868","pass/1":"e29c5be5dfde2605f1d78ee2e98751f70a0ac00aa072bc907742054bac4e5cc3","plan":"f513b00189e431637eaf612460356f38781226f8c218e12b16abb84b42360c95","scores/1":"452b7b4a820ec48dccecab183c6f07df1841936b1ca3d238e4bae1894d6cb5fc","together/1":"1d913edb3a719f89053090c38931461c73043d9d3bda2b1cc85a45fb3e81db7c","verdicts":"3d5f32f907a748ec8c58a7de097a0d0ed283ff3e9fb6768760c3797e49228d33"},"time":1795829624.9698536,"unexpected":[],"unsigned":""}','ed25519:xzMf3ij5SAORDNht0rQmhdCFA3Y6PZq1GpRd/J3fGLA=','HuHwS3HkhPeAcNtDLKBy+asWEa/HDj+Fge0U5E8bq/gafMRuWGwskBp55HCmX61IyhcmerJ8d9NGbQhcVAyyCg==');
CREATE TABLE drafts(file TEXT PRIMARY KEY, digest TEXT NOT NULL, data TEXT NOT NULL, time REAL NOT NULL);
CREATE TABLE earlier(
          id INTEGER PRIMARY KEY, run INTEGER NOT NULL, answer INTEGER NOT NULL, time REAL NOT NULL, body INTEGER,
          scores TEXT NOT NULL, judging TEXT);
CREATE TABLE group_scores(
  run INTEGER NOT NULL, pass INTEGER NOT NULL, item INTEGER NOT NULL, turn INTEGER NOT NULL, key TEXT NOT NULL,
  evaluator TEXT NOT NULL, score REAL, result TEXT, threshold REAL, label TEXT, reason TEXT NOT NULL,
  details TEXT NOT NULL, weight REAL NOT NULL, measure TEXT NOT NULL DEFAULT '', origin INTEGER NOT NULL DEFAULT 0, PRIMARY KEY(run, pass, item, turn, key)) WITHOUT ROWID;
CREATE TABLE item_counts(run INTEGER NOT NULL, prompt INTEGER NOT NULL, target INTEGER NOT NULL, category TEXT NOT NULL, item INTEGER NOT NULL, judged INTEGER NOT NULL, passed INTEGER NOT NULL, PRIMARY KEY(run, prompt, target, category, item)) WITHOUT ROWID;
CREATE TABLE labels(
  id INTEGER PRIMARY KEY, run INTEGER NOT NULL, answer INTEGER NOT NULL, evaluator TEXT,
  verdict TEXT NOT NULL CHECK(verdict IN ('pass', 'fail')), author TEXT NOT NULL, time REAL NOT NULL,
  note TEXT NOT NULL, blind INTEGER NOT NULL DEFAULT 0);
CREATE TABLE ledger(run INTEGER NOT NULL, prompt INTEGER NOT NULL, target INTEGER NOT NULL, category TEXT NOT NULL, total INTEGER NOT NULL, pending INTEGER NOT NULL, running INTEGER NOT NULL, answered INTEGER NOT NULL, passed INTEGER NOT NULL, failed INTEGER NOT NULL, partial INTEGER NOT NULL, errored INTEGER NOT NULL, unjudged INTEGER NOT NULL, scored INTEGER NOT NULL, cost REAL NOT NULL, unpriced INTEGER NOT NULL, cached INTEGER NOT NULL, input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL, cached_tokens INTEGER NOT NULL, reasoning_tokens INTEGER NOT NULL, judge_cost REAL NOT NULL, may_cost REAL NOT NULL, items INTEGER NOT NULL, squares INTEGER NOT NULL, crossed INTEGER NOT NULL, sizes INTEGER NOT NULL, PRIMARY KEY(run, prompt, target, category)) WITHOUT ROWID;
INSERT INTO "ledger" VALUES(1,0,0,'',3,0,0,0,3,0,0,0,0,0,0.0,3,0,0,0,0,0,0.0,0.0,3,3,3,3);
CREATE TABLE meta(k TEXT PRIMARY KEY, v INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO "meta" VALUES('generation',0);
INSERT INTO "meta" VALUES('schema',22);
INSERT INTO "meta" VALUES('seq',9);
INSERT INTO "meta" VALUES('store',2105369753625457543);
INSERT INTO "meta" VALUES('workers',1);
INSERT INTO "meta" VALUES('writer',4427717627346006607);
CREATE TABLE passes(
  run INTEGER NOT NULL, pass INTEGER NOT NULL, created REAL NOT NULL, config TEXT NOT NULL,
  PRIMARY KEY(run, pass)) WITHOUT ROWID;
INSERT INTO "passes" VALUES(1,1,1.79582962309798860548e+09,'{"targets":[{"model":"python:agent:answer","base_url":null,"params":{},"via":"auto","name":"agent"}],"judge":{"model":"openai/judge","base_url":"http://judge.test/v1","params":{},"via":"auto","name":"judge"},"without_judges":false,"rubric":"strict","repeats":1,"only":null,"prompts":[],"terms":{"concurrency":null,"max_cost":null,"use_cache":true,"cluster":null},"destinations":{"judge":{"host":"judge.test","scheme":"http","key":null,"sentence":"sends its questions to judge.test"}}}');
CREATE TABLE replies(
          run INTEGER NOT NULL, pass INTEGER NOT NULL, key TEXT NOT NULL, text TEXT, reply TEXT NOT NULL,
          PRIMARY KEY(run, pass, key)) WITHOUT ROWID;
CREATE TABLE runs(
  id INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL UNIQUE, name TEXT NOT NULL, suite TEXT NOT NULL,
  source TEXT NOT NULL, snapshot TEXT NOT NULL, status TEXT NOT NULL, control TEXT NOT NULL, targets TEXT NOT NULL,
  prompts TEXT NOT NULL, tags TEXT NOT NULL, parent INTEGER, created REAL NOT NULL, started REAL, finished REAL,
  total INTEGER, config TEXT NOT NULL, note TEXT NOT NULL, pid INTEGER, host TEXT, heartbeat REAL,
  scoring_pass INTEGER NOT NULL, message TEXT NOT NULL DEFAULT '', code TEXT NOT NULL DEFAULT '', verdict TEXT NOT NULL DEFAULT '', waiting TEXT NOT NULL DEFAULT '', staged_pass INTEGER NOT NULL DEFAULT 0, staged_total INTEGER NOT NULL DEFAULT 0, reserved REAL NOT NULL DEFAULT 0, gates TEXT NOT NULL DEFAULT '');
INSERT INTO "runs" VALUES(1,'kj5h2m','old','','data.json','e2a76ba77d542e90c438253793c1ae9e776b73ce5cd90ab1e2b8af232715f5da','finished','','["agent"]','[""]','[]',NULL,1.79582962310757970805e+09,1.79582962317687153813e+09,1.79582962486403918266e+09,3,'{"targets":[{"model":"python:agent:answer","base_url":null,"params":{},"via":"auto","name":"agent"}],"judge":{"model":"openai/judge","base_url":"http://judge.test/v1","params":{},"via":"auto","name":"judge"},"without_judges":false,"rubric":"strict","repeats":1,"only":null,"prompts":[],"terms":{"concurrency":null,"max_cost":null,"use_cache":true,"cluster":null},"destinations":{"judge":{"host":"judge.test","scheme":"http","key":null,"sentence":"sends its questions to judge.test"}}}','',1,'host',1.79582962321253895758e+09,1,'','','','',0,0,0.0,'');
CREATE TABLE scores(
  answer INTEGER NOT NULL, pass INTEGER NOT NULL, key TEXT NOT NULL, evaluator TEXT NOT NULL, score REAL, result TEXT,
  threshold REAL, label TEXT, reason TEXT NOT NULL, details TEXT NOT NULL, weight REAL NOT NULL, measure TEXT NOT NULL DEFAULT '', origin INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY(answer, pass, key)) WITHOUT ROWID;
INSERT INTO "scores" VALUES(1,1,'Groundedness','Groundedness',5.0,'pass',3.0,NULL,'It is.','{"grounded_in":"context, chunks","reply":"{\"reason\": \"It is.\", \"score\": 5}","rubric":"groundedness 2","judge_model":"m"}',1.0,'at least from 1 to 5',0);
INSERT INTO "scores" VALUES(1,1,'Relevance','Relevance',5.0,'pass',3.0,NULL,'It is.','{"reply":"{\"reason\": \"It is.\", \"score\": 5}","rubric":"relevance 2","judge_model":"m"}',1.0,'at least from 1 to 5',0);
INSERT INTO "scores" VALUES(1,1,'Rubric','Rubric',5.0,'pass',3.0,NULL,'It is.','{"reply":"{\"reason\": \"It is.\", \"score\": 5}","rubric":"rubric 2","judge_model":"m"}',1.0,'at least from 1 to 5',0);
INSERT INTO "scores" VALUES(2,1,'Relevance','Relevance',5.0,'pass',3.0,NULL,'It is.','{"reply":"{\"reason\": \"It is.\", \"score\": 5}","rubric":"relevance 2","judge_model":"m"}',1.0,'at least from 1 to 5',0);
INSERT INTO "scores" VALUES(2,1,'Rubric','Rubric',5.0,'pass',3.0,NULL,'It is.','{"reply":"{\"reason\": \"It is.\", \"score\": 5}","rubric":"rubric 2","judge_model":"m"}',1.0,'at least from 1 to 5',0);
INSERT INTO "scores" VALUES(3,1,'Relevance','Relevance',5.0,'pass',3.0,NULL,'It is.','{"reply":"{\"reason\": \"It is.\", \"score\": 5}","rubric":"relevance 2","judge_model":"m"}',1.0,'at least from 1 to 5',0);
INSERT INTO "scores" VALUES(3,1,'Rubric','Rubric',5.0,'pass',3.0,NULL,'It is.','{"reply":"{\"reason\": \"It is.\", \"score\": 5}","rubric":"rubric 2","judge_model":"m"}',1.0,'at least from 1 to 5',0);
INSERT INTO "scores" VALUES(3,1,'TaskCompletion','TaskCompletion',5.0,'pass',3.0,NULL,'It is.','{"reply":"{\"reason\": \"It is.\", \"score\": 5}","rubric":"taskcompletion 1","judge_model":"m"}',1.0,'at least from 1 to 5',0);
CREATE TABLE session(k TEXT PRIMARY KEY, v TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE snapshots(hash TEXT PRIMARY KEY, name TEXT NOT NULL, document TEXT NOT NULL, created REAL NOT NULL);
INSERT INTO "snapshots" VALUES('e2a76ba77d542e90c438253793c1ae9e776b73ce5cd90ab1e2b8af232715f5da','data.json','{"schemaVersion":"1.11.0","default_evaluators":{"Rubric":{"criteria":"It answers the question."},"Relevance":{}},"items":[{"testId":"plain","prompt":"Until when can parcels be returned?","context":"Returns are free for 30 days.","evaluators":{"Groundedness":{}}},{"testId":"think","prompt":"What is six times seven? think"},{"testId":"tools","prompt":"Is order 7 paid?","evaluators":{"TaskCompletion":{}},"tools":[{"type":"function","function":{"name":"find","parameters":{"type":"object"}}}],"tool_results":[{"tool":"find","result":"paid"}],"allowed_tools":["find"]}]}',1.79582962307553982731e+09);
CREATE TABLE staged(answer INTEGER PRIMARY KEY, run INTEGER NOT NULL, status TEXT NOT NULL, score REAL);
CREATE TABLE statements(
  run TEXT NOT NULL, part TEXT NOT NULL, statement TEXT NOT NULL, hints BLOB NOT NULL, PRIMARY KEY(run, part));
INSERT INTO "statements" VALUES('kj5h2m','answers','{"columns":{"answer":"929218ba77ba2a250a2d3d92460d8e265bbca81770662ccfacb758ebc0732c11","attempts":"9f024373bddfccbb8068ecd7d177da17634b09ddb00f836215d3154983918f8b","cached_tokens":"7a1ca330a8fd964bf3aa71489ffe00cfe421c32944ff6d2248847b1eb4cc385c","category":"e4225463db49c068fcfda6b6feed701490cac27973396f9952f0e99eb12acf9a","cell":"0231a1ef35e7b77dc1cc4897f44cc48672d7d58c435c1a8b703fa411e65390a2","code":"49849dcc4bc84e8e8d9d6391be0d11381d3720c50b48dbb27f6b22d8345090da","cost":"49849dcc4bc84e8e8d9d6391be0d11381d3720c50b48dbb27f6b22d8345090da","ending":"e4225463db49c068fcfda6b6feed701490cac27973396f9952f0e99eb12acf9a","from_cache":"7a1ca330a8fd964bf3aa71489ffe00cfe421c32944ff6d2248847b1eb4cc385c","input_tokens":"49849dcc4bc84e8e8d9d6391be0d11381d3720c50b48dbb27f6b22d8345090da","item":"0231a1ef35e7b77dc1cc4897f44cc48672d7d58c435c1a8b703fa411e65390a2","latency_ms":"3ce3b430bc05526f21780f7af24a41a244a480faf382438e877bfa7228c2ca67","name":"ce69529e82b01ff43b1c460d1165ffdebacbe1458497d2082516b150132407b7","output_tokens":"49849dcc4bc84e8e8d9d6391be0d11381d3720c50b48dbb27f6b22d8345090da","pos":"0231a1ef35e7b77dc1cc4897f44cc48672d7d58c435c1a8b703fa411e65390a2","preview":"e7e31b0030ae2cb4fe2d94d372b0aa888e5ca1b18da8df1fe74ceb4fb61b5167","prompt":"7a1ca330a8fd964bf3aa71489ffe00cfe421c32944ff6d2248847b1eb4cc385c","reasoning_tokens":"7a1ca330a8fd964bf3aa71489ffe00cfe421c32944ff6d2248847b1eb4cc385c","repeat":"7a1ca330a8fd964bf3aa71489ffe00cfe421c32944ff6d2248847b1eb4cc385c","request":"b0e9875ff0c11a7c815c1dd8bd346f40391f461526ebfcf88129c3f5c8967e1d","scripted":"7a1ca330a8fd964bf3aa71489ffe00cfe421c32944ff6d2248847b1eb4cc385c","started":"49849dcc4bc84e8e8d9d6391be0d11381d3720c50b48dbb27f6b22d8345090da","target":"7a1ca330a8fd964bf3aa71489ffe00cfe421c32944ff6d2248847b1eb4cc385c","text":"e7e31b0030ae2cb4fe2d94d372b0aa888e5ca1b18da8df1fe74ceb4fb61b5167","turn":"7a1ca330a8fd964bf3aa71489ffe00cfe421c32944ff6d2248847b1eb4cc385c"},"form":1,"open":[],"rows":3,"upto":null}',X'00000000B58E02FB9975FB42A63D0DDE00000001F5127CB93F88F0CC083431CC00000002A7ADE087688B70E88FF38759');
INSERT INTO "statements" VALUES('kj5h2m','verdicts','{"columns":{"pos":"0231a1ef35e7b77dc1cc4897f44cc48672d7d58c435c1a8b703fa411e65390a2","score":"402f18be5350384b9bba933c4b96169f48096b1915f7a42feae4e3ed31c69aa3","status":"73edf4f65c1c94cf7b336b6e5fda6f8f4894d4be39f04f14cf23cad0b5552953"},"form":1,"open":[],"rows":3,"upto":null}',X'000000003FED89D6379120032210629200000001C65D299B28A424D9E85EEA5A0000000206D028E66F0F8FCA6E08ADD8');
INSERT INTO "statements" VALUES('kj5h2m','pass/1','{"columns":{"config":"f21c57b2250402bd6f40e90dc6db3a65f0b1d810a9f2f7655edda13740b881c4","created":"a0b2daf842454cc2338a331f755f2ee775ee4351440a749e0d81b83bb25ad0f5","document":"b468055e3f2c45a9c170c7cab025a95f1bfc9963dcc8e138949bc6d4d1e46e49","pass":"e9586b616536950f82cad86972b68f4f99d3fb3cdf4013c0d1a0a09394ca96b5"},"form":1,"open":[],"rows":1,"upto":null}',X'00000000846F98320716A23575508C44');
INSERT INTO "statements" VALUES('kj5h2m','scores/1','{"columns":{"details":"c28075fd1dcb09497d00393abd9c93c42051bcf4d8abc56500a3d80cac35bb5a","evaluator":"729b9c6f7a18c6fbc1b4d06c106a3c7c767591671e5e79fd68a2e9be9464e60b","key":"729b9c6f7a18c6fbc1b4d06c106a3c7c767591671e5e79fd68a2e9be9464e60b","label":"50cfe92318c52d76d75a22d4f6dc74c2c3af489d61f500b76ab73efcaf5c5c07","measure":"e4b08fd2f96fbcf0f474d1eae10fc348c1ad8dc342e5ce8b47d1850c79b4e53d","origin":"96d1b7c055941ce25d7885e8feff36b970fd97c5cb35666b48e9291936a122a2","pos":"176e9d156415b12f20943e2ab391ca536d1f68b211f21b575413834cb17590d6","reason":"6205aae4f498d81128b951d5e15784efe2ec227a8965c7f8fff1f356e6ba8652","result":"d36c0794a5db0786156bf0f05a85a6885eeebca9b1dbe12701e9ee464f6e1f47","score":"42cf2b532ed1183495dea23f688edb1cb90b102121a45aa057fe885ca33b8bba","threshold":"36ffd96e91645f9369f3486628db27f800c328974d48611c31026799dcc56dd7","weight":"03b55548b65b795c71454f39103ee8d63f9131d803be35b7b694b1329d472192"},"form":1,"open":[],"rows":8,"upto":null}',X'0000000047D10A812E176900F190795F000000018056B9C88E558BB8DE2E6695000000022A71D4D973EC0D6B86EBBAA3');
INSERT INTO "statements" VALUES('kj5h2m','together/1','{"columns":{"details":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","evaluator":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","item":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","key":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","label":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","measure":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","origin":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","reason":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","result":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","score":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","threshold":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","turn":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","weight":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},"form":1,"open":[],"rows":0,"upto":null}',X'');
INSERT INTO "statements" VALUES('kj5h2m','earlier','{"columns":{"answer":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","judging":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","pos":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","request":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","scores":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","text":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","time":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},"form":1,"open":[],"rows":0,"upto":null}',X'');
INSERT INTO "statements" VALUES('kj5h2m','calls','{"columns":{"attempt":"d12a60d87ccff672292a03a6e21ed9ca8a167428b6eb07b53cb88e3748c245a2","cached_tokens":"855b74f4114263e9e88688a3c5206955890328885ac80f52f01417d7ddc7989f","code":"74aaf251ce2eba705ceaf40996e7f67732208c514cf993b9a0c9cfc16be80acb","cost":"d79a343eedbf9d15834cc595b2a49e941d4d82da65699714199f5303f8337e10","from_cache":"855b74f4114263e9e88688a3c5206955890328885ac80f52f01417d7ddc7989f","input_tokens":"713e55bc4e6d1788b524f12df222130a5034a00da5e45670d2deb29f09f0271b","kind":"c3dea86176c82dfe0bcda931dfb1a092beb667376a3123524beb67b4c87be883","latency_ms":"5dcfb134b8b93927c73af19567107cbd9f20bd55d8b7ca584c5ce00d519661e2","may_cost":"74aaf251ce2eba705ceaf40996e7f67732208c514cf993b9a0c9cfc16be80acb","message":"74aaf251ce2eba705ceaf40996e7f67732208c514cf993b9a0c9cfc16be80acb","output_tokens":"a800baa21c438e7e1885e59149cc1a7512fe5028b768c8520b555902498f6593","pos":"23bd08daf21388a87f0c05507ce5af5ba69be31b41dc5fb3835cfb01237babde","reasoning_tokens":"855b74f4114263e9e88688a3c5206955890328885ac80f52f01417d7ddc7989f","started":"92d0794b40f33a3bb7db901b5c42e88a84d8815e3782c43e37e065b86b60d761","target":"d01287cf903a26a986b335dbb7a7e5c6b1915a700d2d275fe15f40d7f6a89b20"},"form":1,"open":[],"rows":12,"upto":12}',X'');
INSERT INTO "statements" VALUES('kj5h2m','about','{"columns":{"name":"f465ca292b768616a3d01465d075b3b1e5456e5e80795f90d6e98b8f2ca67fc7","note":"077f19e1ef9aa8e8e96c14d2f72fabe8e294901dd939e3de281e36425d3051fc","tags":"c2f45e632fd8681500fde7d9cca588c71de7eaa622aff96cfd3aad247164f2bc"},"form":1,"open":[],"rows":1,"upto":null}',X'00000000170B4C9339A03A85E18013E3');
INSERT INTO "statements" VALUES('kj5h2m','outcome','{"columns":{"code":"077f19e1ef9aa8e8e96c14d2f72fabe8e294901dd939e3de281e36425d3051fc","finished":"989ce7564a66239d0ca92045cc299023683faaee6f46be44d3502b325ae4e965","gates":"077f19e1ef9aa8e8e96c14d2f72fabe8e294901dd939e3de281e36425d3051fc","message":"077f19e1ef9aa8e8e96c14d2f72fabe8e294901dd939e3de281e36425d3051fc","scoring_pass":"e9586b616536950f82cad86972b68f4f99d3fb3cdf4013c0d1a0a09394ca96b5","started":"bcf59fdfb2dd13131372ae6aaea0716ee05ece7c4261292ab4dc7bb45f3ba311","status":"52c2de3dd9d59e4ca5150fc961ab64151dcb97bc100163f21470a71d607ad92c","verdict":"077f19e1ef9aa8e8e96c14d2f72fabe8e294901dd939e3de281e36425d3051fc"},"form":1,"open":[],"rows":1,"upto":null}',X'000000007B8BA06164226753612B4059');
INSERT INTO "statements" VALUES('kj5h2m','plan','{"columns":{"config":"f21c57b2250402bd6f40e90dc6db3a65f0b1d810a9f2f7655edda13740b881c4","created":"a25c4f979ce0c3f6ccd89ac1856789855c4fd6023938e69572a39f450b8e56e8","document":"9420e3429a9d0185ce57554587501d488c4f84a459df1c2fea55384ebd2e2e64","key":"b7ad5b0205f3ec4d89bc802cc8a2452cf5af579ab480fd2bd64934217bdda76f","prompts":"315b3e9d32d0145d96f10252018792acd782a9b2b4144c2f10fe8d26b2f97492","snapshot":"96bcf2d6009b25a6b93d3ca30e6493d299b82c3798a341406bc6f4deab8397f5","source":"9b061eb94bb4bedf30411066cbae2beab380bd63bd616c207b6034ba38dcfa7f","suite":"077f19e1ef9aa8e8e96c14d2f72fabe8e294901dd939e3de281e36425d3051fc","targets":"9b89f09ab7fd22b695b10846a5037800aca5122a160ef7380c6f9b3dc4ec16e7","total":"bf7bd500807d7596a4c688f9aa5848993033a34c499d1c99fa1980335cc4e4bf"},"form":1,"open":[],"rows":1,"upto":null}',X'00000000DFC5AC22A11457AAE75E7ED0');
INSERT INTO "statements" VALUES('kj5h2m','labels','{"columns":{"author":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","blind":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","evaluator":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","note":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","pos":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","time":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","verdict":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},"form":1,"open":[],"rows":0,"upto":null}',X'');
CREATE TABLE workers(
          run INTEGER NOT NULL, name TEXT NOT NULL, state TEXT NOT NULL CHECK(state IN ('alive', 'silent', 'gone')),
          cells INTEGER NOT NULL, calls INTEGER NOT NULL, rate REAL NOT NULL, errors INTEGER NOT NULL,
          seen REAL NOT NULL, PRIMARY KEY(run, name)) WITHOUT ROWID;
CREATE UNIQUE INDEX answers_run_pos ON answers(run, pos);
CREATE UNIQUE INDEX answers_seq ON answers(seq);
CREATE INDEX calls_run ON calls(run, answer);
CREATE INDEX labels_run ON labels(run, answer);
CREATE INDEX staged_run ON staged(run);
CREATE INDEX earlier_answer ON earlier(answer);
CREATE INDEX earlier_judging ON earlier(run) WHERE judging IS NOT NULL;
CREATE INDEX activities_about ON activities(kind, about);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('runs',1);
INSERT INTO "sqlite_sequence" VALUES('answers',3);
COMMIT;
