-- Texts as tools send them, each with the view that serves it, and what is proposed.
-- Superset: charts
SELECT date_trunc('month', l_shipdate) AS __timestamp, SUM(l_extendedprice) AS `SUM(l_extendedprice)`
FROM shop.lineitem
WHERE l_shipdate >= CAST('1994-01-01' AS DATE) AND l_shipdate < CAST('1995-01-01' AS DATE)
GROUP BY date_trunc('month', l_shipdate)
ORDER BY `SUM(l_extendedprice)` DESC
LIMIT 50000;
--> daily: SELECT date_trunc('month', daily.ship) AS __timestamp, CAST(sum(daily.revenue) AS DECIMAL(25, 2)) AS `SUM(l_extendedprice)` FROM daily AS daily WHERE daily.ship >= CAST('1994-01-01' AS DATE) AND daily.ship < CAST('1995-01-01' AS DATE) GROUP BY date_trunc('month', daily.ship) ORDER BY `SUM(l_extendedprice)` DESC LIMIT 50000
SELECT l_returnflag AS l_returnflag, l_linestatus AS l_linestatus, COUNT(*) AS count, AVG(l_quantity) AS `AVG(l_quantity)`
FROM shop.lineitem
GROUP BY l_returnflag, l_linestatus
ORDER BY count DESC
LIMIT 10000;
--> daily: SELECT daily.flag AS l_returnflag, daily.status AS l_linestatus, sum(daily.lines) AS count, CAST(CAST(sum(daily.qty) AS DECIMAL(25, 2)) / CAST(sum(daily.qtys) AS DECIMAL(20, 0)) AS DECIMAL(19, 6)) AS `AVG(l_quantity)` FROM daily AS daily GROUP BY daily.flag, daily.status ORDER BY count DESC LIMIT 10000
SELECT date_trunc('week', l_shipdate) AS __timestamp, l_returnflag AS l_returnflag, sum(l_quantity) AS q
FROM shop.lineitem
WHERE l_shipdate >= CAST('1996-02-12' AS DATE) AND l_returnflag IN ('A', 'R')
GROUP BY date_trunc('week', l_shipdate), l_returnflag
LIMIT 50000;
--> daily: SELECT date_trunc('week', daily.ship) AS __timestamp, daily.flag AS l_returnflag, CAST(sum(daily.qty) AS DECIMAL(25, 2)) AS q FROM daily AS daily WHERE daily.ship >= CAST('1996-02-12' AS DATE) AND daily.flag IN ('A', 'R') GROUP BY date_trunc('week', daily.ship), daily.flag LIMIT 50000
SELECT COUNT(*) AS count
FROM (SELECT * FROM shop.lineitem WHERE l_linestatus = 'F') AS virtual_table
LIMIT 50000;
--> daily: SELECT coalesce(sum(daily.lines), 0) AS count FROM daily AS daily WHERE daily.status = 'F' LIMIT 50000
SELECT from_unixtime(unix_timestamp(l_shipdate), 'yyyy-MM-01 00:00:00') AS __timestamp, SUM(l_extendedprice) AS revenue
FROM shop.lineitem
GROUP BY from_unixtime(unix_timestamp(l_shipdate), 'yyyy-MM-01 00:00:00')
ORDER BY revenue DESC
LIMIT 1000;
--> daily: SELECT from_unixtime(unix_timestamp(daily.ship), 'yyyy-MM-01 00:00:00') AS __timestamp, CAST(sum(daily.revenue) AS DECIMAL(25, 2)) AS revenue FROM daily AS daily GROUP BY from_unixtime(unix_timestamp(daily.ship), 'yyyy-MM-01 00:00:00') ORDER BY revenue DESC LIMIT 1000
SELECT year(l_shipdate) AS y, SUM(l_extendedprice * (1 - l_discount)) AS net
FROM shop.lineitem
WHERE l_returnflag != 'N'
GROUP BY year(l_shipdate)
HAVING SUM(l_extendedprice * (1 - l_discount)) > 1000000
ORDER BY net DESC
LIMIT 100;
--> daily: SELECT year(daily.ship) AS y, CAST(sum(daily.net) AS DECIMAL(36, 4)) AS net FROM daily AS daily WHERE daily.flag <> 'N' GROUP BY year(daily.ship) HAVING CAST(sum(daily.net) AS DECIMAL(36, 4)) > 1000000 ORDER BY net DESC LIMIT 100
SELECT c_mktsegment AS c_mktsegment, SUM(o_totalprice) AS total
FROM shop.orders JOIN shop.customer ON o_custkey = c_custkey
WHERE o_orderdate >= CAST('1995-01-01' AS DATE) AND o_orderdate < CAST('1996-01-01' AS DATE)
GROUP BY c_mktsegment
ORDER BY total DESC
LIMIT 100;
--> segments: SELECT segments.segment AS c_mktsegment, CAST(sum(segments.total) AS DECIMAL(25, 2)) AS total FROM segments AS segments WHERE segments.day >= CAST('1995-01-01' AS DATE) AND segments.day < CAST('1996-01-01' AS DATE) GROUP BY segments.segment ORDER BY total DESC LIMIT 100
SELECT date_trunc('quarter', o_orderdate) AS __timestamp, count(*) AS orders
FROM shop.customer, shop.orders
WHERE c_custkey = o_custkey AND c_mktsegment = 'BUILDING'
GROUP BY date_trunc('quarter', o_orderdate)
ORDER BY __timestamp
LIMIT 50000;
--> segments: SELECT date_trunc('quarter', segments.day) AS __timestamp, sum(segments.orders) AS orders FROM segments AS segments WHERE segments.segment = 'BUILDING' GROUP BY date_trunc('quarter', segments.day) ORDER BY __timestamp LIMIT 50000
SELECT d_year AS d_year, s_state AS s_state, SUM(ss_net_paid) AS paid, SUM(ss_quantity) AS pieces
FROM shop.store_sales
JOIN shop.date_dim ON ss_sold_date_sk = d_date_sk
JOIN shop.store ON ss_store_sk = s_store_sk
JOIN shop.item ON ss_item_sk = i_item_sk
WHERE i_category = 'Books' AND d_year IN (2001, 2002)
GROUP BY d_year, s_state
LIMIT 50000;
--> sales: SELECT sales.year AS d_year, sales.state AS s_state, CAST(sum(sales.paid) AS DECIMAL(17, 2)) AS paid, sum(sales.pieces) AS pieces FROM sales AS sales WHERE sales.category = 'Books' AND sales.year IN (2001, 2002) GROUP BY sales.year, sales.state LIMIT 50000
SELECT DISTINCT i_brand AS i_brand
FROM shop.store_sales JOIN shop.date_dim ON ss_sold_date_sk = d_date_sk JOIN shop.store ON ss_store_sk = s_store_sk
JOIN shop.item ON ss_item_sk = i_item_sk
WHERE i_category = 'Music'
LIMIT 1000;
--> sales: SELECT DISTINCT sales.brand AS i_brand FROM sales AS sales WHERE sales.category = 'Music' LIMIT 1000
SELECT date_trunc('day', ts) AS __timestamp, country AS country, sum(clicks) AS clicks
FROM shop.events
WHERE ts >= CAST('2024-03-01 00:00:00' AS TIMESTAMP) AND ts < CAST('2024-04-01 00:00:00' AS TIMESTAMP)
GROUP BY date_trunc('day', ts), country
ORDER BY clicks DESC
LIMIT 50000;
--> hourly: SELECT date_trunc('day', hourly.hour) AS __timestamp, hourly.country, sum(hourly.clicks) AS clicks FROM hourly AS hourly WHERE hourly.hour >= CAST('2024-03-01 00:00:00' AS TIMESTAMP) AND hourly.hour < CAST('2024-04-01 00:00:00' AS TIMESTAMP) GROUP BY date_trunc('day', hourly.hour), hourly.country ORDER BY clicks DESC LIMIT 50000
SELECT max(amount) AS `MAX(amount)`, bool_or(flag) AS flagged FROM shop.events WHERE device = 'phone' LIMIT 50000;
--> hourly: SELECT max(hourly.highest) AS `MAX(amount)`, bool_or(hourly.flagged) AS flagged FROM hourly AS hourly WHERE hourly.device = 'phone' LIMIT 50000
-- Superset: a chart of the top groups
SELECT l_returnflag AS l_returnflag, date_trunc('year', l_shipdate) AS __timestamp, sum(l_quantity) AS qty
FROM shop.lineitem
JOIN (SELECT l_returnflag AS l_returnflag__, sum(l_quantity) AS mme_inner__ FROM shop.lineitem
GROUP BY l_returnflag ORDER BY mme_inner__ DESC LIMIT 5) AS series_limit ON l_returnflag = l_returnflag__
GROUP BY l_returnflag, date_trunc('year', l_shipdate)
LIMIT 10000;
--> daily: SELECT daily.flag AS l_returnflag, date_trunc('year', daily.ship) AS __timestamp, CAST(sum(daily.qty) AS DECIMAL(25, 2)) AS qty FROM daily AS daily INNER JOIN (SELECT daily.flag AS l_returnflag__, CAST(sum(daily.qty) AS DECIMAL(25, 2)) AS mme_inner__ FROM daily AS daily GROUP BY daily.flag ORDER BY mme_inner__ DESC LIMIT 5) AS series_limit ON daily.flag = series_limit.l_returnflag__ GROUP BY daily.flag, date_trunc('year', daily.ship) LIMIT 10000
-- Superset: the labels of a filter
SELECT l_returnflag FROM shop.lineitem GROUP BY l_returnflag ORDER BY l_returnflag ASC LIMIT 1000;
--> daily: SELECT daily.flag AS l_returnflag FROM daily AS daily GROUP BY daily.flag ORDER BY l_returnflag ASC LIMIT 1000
-- Tableau
SELECT YEAR(CAST(CONCAT(TO_DATE(`lineitem`.`l_shipdate`), ' 00:00:00') AS TIMESTAMP)) AS `yr_l_shipdate_ok`,
  SUM(`lineitem`.`l_extendedprice`) AS `sum_l_extendedprice_ok`
FROM `shop`.`lineitem` `lineitem`
GROUP BY YEAR(CAST(CONCAT(TO_DATE(`lineitem`.`l_shipdate`), ' 00:00:00') AS TIMESTAMP));
--> daily: SELECT YEAR(CAST(CONCAT(TO_DATE(daily.ship), ' 00:00:00') AS TIMESTAMP)) AS yr_l_shipdate_ok, CAST(sum(daily.revenue) AS DECIMAL(25, 2)) AS sum_l_extendedprice_ok FROM daily AS daily GROUP BY YEAR(CAST(CONCAT(TO_DATE(daily.ship), ' 00:00:00') AS TIMESTAMP))
SELECT `lineitem`.`l_returnflag` AS `l_returnflag`, SUM(1) AS `sum_number_of_records_ok`
FROM `shop`.`lineitem` `lineitem` GROUP BY `lineitem`.`l_returnflag`;
--> daily: SELECT daily.flag AS l_returnflag, sum(daily.lines) AS sum_number_of_records_ok FROM daily AS daily GROUP BY daily.flag
SELECT `t`.`l_linestatus` AS `l_linestatus`, SUM(`t`.`l_quantity`) AS `sum_l_quantity_ok`
FROM (select * from `shop`.`lineitem`) `t`
WHERE ((`t`.`l_returnflag` IN ('A', 'N')) AND (`t`.`l_shipdate` >= CAST('1996-01-01' AS DATE)))
GROUP BY `t`.`l_linestatus` HAVING (COUNT(1) > 0);
--> daily: SELECT daily.status AS l_linestatus, CAST(sum(daily.qty) AS DECIMAL(25, 2)) AS sum_l_quantity_ok FROM daily AS daily WHERE daily.flag IN ('A', 'N') AND daily.ship >= CAST('1996-01-01' AS DATE) GROUP BY daily.status HAVING sum(daily.lines) > 0
SELECT `c`.`c_mktsegment` AS `c_mktsegment`, SUM(`o`.`o_totalprice`) AS `sum_o_totalprice_ok`
FROM (select * from shop.orders) `o` JOIN (select * from shop.customer) `c` ON (`o`.`o_custkey` = `c`.`c_custkey`)
WHERE (YEAR(`o`.`o_orderdate`) = 1997)
GROUP BY `c`.`c_mktsegment`;
--> segments: SELECT segments.segment AS c_mktsegment, CAST(sum(segments.total) AS DECIMAL(25, 2)) AS sum_o_totalprice_ok FROM segments AS segments WHERE YEAR(segments.day) = 1997 GROUP BY segments.segment
SELECT COUNT(1) AS `cnt_ok`, MIN(`l`.`l_shipdate`) AS `min_ok`, MAX(`l`.`l_shipdate`) AS `max_ok`
FROM `shop`.`lineitem` `l` HAVING (COUNT(1) > 0);
--> daily: SELECT coalesce(sum(daily.lines), 0) AS cnt_ok, min(daily.ship) AS min_ok, max(daily.ship) AS max_ok FROM daily AS daily HAVING coalesce(sum(daily.lines), 0) > 0
SELECT `t0`.`d` AS `d`, SUM(`t0`.`x`) AS `s` FROM
(SELECT `l`.`l_shipdate` AS `d`, SUM(`l`.`l_extendedprice`) AS `x` FROM `shop`.`lineitem` `l` GROUP BY `l`.`l_shipdate`) `t0`
GROUP BY `t0`.`d`;
--> daily: SELECT `t0`.`d` AS `d`, SUM(`t0`.`x`) AS `s` FROM (SELECT daily.ship AS d, CAST(sum(daily.revenue) AS DECIMAL(25, 2)) AS x FROM daily AS daily GROUP BY daily.ship) AS `t0` GROUP BY `t0`.`d`
SELECT SUM((CASE WHEN (`l`.`l_returnflag` = 'R') THEN `l`.`l_extendedprice` ELSE NULL END)) AS `returned`,
 COUNT(DISTINCT `l`.`l_linestatus`) AS `ctd_status_ok` FROM `shop`.`lineitem` `l`;
--> daily: SELECT CAST(sum(CASE WHEN (daily.flag = 'R') THEN daily.revenue ELSE NULL END) AS DECIMAL(25, 2)) AS returned, count(DISTINCT daily.status) AS ctd_status_ok FROM daily AS daily
SELECT CAST(TRUNC(`l`.`l_shipdate`, 'MM') AS DATE) AS `tmn_ok`, AVG(`l`.`l_quantity`) AS `avg_ok`
FROM `shop`.`lineitem` `l` GROUP BY CAST(TRUNC(`l`.`l_shipdate`, 'MM') AS DATE);
--> daily: SELECT CAST(TRUNC(daily.ship, 'MM') AS DATE) AS tmn_ok, CAST(CAST(sum(daily.qty) AS DECIMAL(25, 2)) / CAST(sum(daily.qtys) AS DECIMAL(20, 0)) AS DECIMAL(19, 6)) AS avg_ok FROM daily AS daily GROUP BY CAST(TRUNC(daily.ship, 'MM') AS DATE)
SELECT MONTH(`events`.`ts`) AS `mn_ts_ok`, YEAR(`events`.`ts`) AS `yr_ts_ok`, COUNT(`events`.`clicks`) AS `cnt_clicks_ok`
FROM `shop`.`events` `events` WHERE `events`.`country` = 'NL'
GROUP BY MONTH(`events`.`ts`), YEAR(`events`.`ts`);
--> hourly: SELECT MONTH(hourly.hour) AS mn_ts_ok, YEAR(hourly.hour) AS yr_ts_ok, sum(hourly.clicked) AS cnt_clicks_ok FROM hourly AS hourly WHERE hourly.country = 'NL' GROUP BY MONTH(hourly.hour), YEAR(hourly.hour)
-- Power BI
select `OTBL`.`C1` as `C1`, `OTBL`.`C2` as `C2` from
(select `l_returnflag` as `C1`, sum(`l_extendedprice`) as `C2` from `shop`.`lineitem` group by `l_returnflag`) as `OTBL`
limit 1001;
--> daily: SELECT `OTBL`.`C1` AS `C1`, `OTBL`.`C2` AS `C2` FROM (SELECT daily.flag AS C1, CAST(sum(daily.revenue) AS DECIMAL(25, 2)) AS C2 FROM daily AS daily GROUP BY daily.flag) AS `OTBL` LIMIT 1001
select `c_mktsegment`, sum(`o_totalprice`) as `C1`
from (select `OTBL`.`o_totalprice`, `ITBL`.`c_mktsegment` from `shop`.`orders` as `OTBL`
  inner join `shop`.`customer` as `ITBL` on (`OTBL`.`o_custkey` = `ITBL`.`c_custkey`)) as `ITBL`
group by `c_mktsegment`
limit 1000001;
--> segments: SELECT segments.segment AS c_mktsegment, CAST(sum(segments.total) AS DECIMAL(25, 2)) AS C1 FROM segments AS segments GROUP BY segments.segment LIMIT 1000001
select `i_category`, `s_state`, sum(`ss_net_paid`) as `C1` from
(select `OTBL`.`ss_net_paid`, `OTBL`.`s_state`, `ITBL`.`i_category` from
 (select `OTBL`.`ss_net_paid`, `OTBL`.`ss_item_sk`, `OTBL`.`ss_sold_date_sk`, `ITBL`.`s_state`
  from `shop`.`store_sales` as `OTBL`
  inner join `shop`.`store` as `ITBL` on (`OTBL`.`ss_store_sk` = `ITBL`.`s_store_sk`)) as `OTBL`
 inner join `shop`.`item` as `ITBL` on (`OTBL`.`ss_item_sk` = `ITBL`.`i_item_sk`)
 inner join `shop`.`date_dim` as `D` on (`OTBL`.`ss_sold_date_sk` = `D`.`d_date_sk`)) as `OTBL`
where `s_state` = 'TN' and `i_category` is not null
group by `i_category`, `s_state` limit 1001;
--> sales: SELECT sales.category AS i_category, sales.state AS s_state, CAST(sum(sales.paid) AS DECIMAL(17, 2)) AS C1 FROM sales AS sales WHERE sales.state = 'TN' AND NOT sales.category IS NULL GROUP BY sales.category, sales.state LIMIT 1001
select count(1) as `C1` from `shop`.`lineitem` as `$Table` where `l_returnflag` = 'A';
--> daily: SELECT coalesce(sum(daily.lines), 0) AS C1 FROM daily AS daily WHERE daily.flag = 'A'
select `rows`.`l_linestatus` as `l_linestatus`, count(distinct `rows`.`l_returnflag`) as `a0`, max(`rows`.`l_shipdate`) as `a1`
from (select `l_linestatus`, `l_returnflag`, `l_shipdate` from `shop`.`lineitem`) as `rows`
group by `l_linestatus` order by `l_linestatus` limit 1001;
--> daily: SELECT daily.status AS l_linestatus, count(DISTINCT daily.flag) AS a0, max(daily.ship) AS a1 FROM daily AS daily GROUP BY daily.status ORDER BY l_linestatus LIMIT 1001
select `o_orderstatus`, sum(`o_totalprice`) as `a0` from `shop`.`orders` where `o_orderdate` >= date '2024-01-01'
group by `o_orderstatus` limit 1001;
--> recent: SELECT recent.o_orderstatus, CAST(sum(recent.total) AS DECIMAL(25, 2)) AS a0 FROM recent AS recent WHERE recent.o_orderdate >= CAST('2024-01-01' AS DATE) GROUP BY recent.o_orderstatus LIMIT 1001
-- Metabase
SELECT DATE_TRUNC('month', `shop`.`lineitem`.`l_shipdate`) AS `l_shipdate`, SUM(`shop`.`lineitem`.`l_extendedprice`) AS `sum`
FROM `shop`.`lineitem`
GROUP BY DATE_TRUNC('month', `shop`.`lineitem`.`l_shipdate`)
ORDER BY DATE_TRUNC('month', `shop`.`lineitem`.`l_shipdate`) ASC;
--> daily: SELECT DATE_TRUNC('month', daily.ship) AS l_shipdate, CAST(sum(daily.revenue) AS DECIMAL(25, 2)) AS sum FROM daily AS daily GROUP BY DATE_TRUNC('month', daily.ship) ORDER BY l_shipdate ASC
SELECT trunc(CAST(`t1`.`l_shipdate` AS timestamp), 'MM') AS `l_shipdate`, count(*) AS `count`
FROM `shop`.`lineitem` AS `t1`
WHERE `t1`.`l_shipdate` BETWEEN date '1993-01-01' AND date '1993-12-31'
GROUP BY trunc(CAST(`t1`.`l_shipdate` AS timestamp), 'MM')
ORDER BY trunc(CAST(`t1`.`l_shipdate` AS timestamp), 'MM') ASC;
--> daily: SELECT trunc(CAST(daily.ship AS TIMESTAMP), 'MM') AS l_shipdate, sum(daily.lines) AS count FROM daily AS daily WHERE daily.ship >= CAST('1993-01-01' AS DATE) AND daily.ship <= CAST('1993-12-31' AS DATE) GROUP BY trunc(CAST(daily.ship AS TIMESTAMP), 'MM') ORDER BY l_shipdate ASC
SELECT `source`.`l_returnflag` AS `l_returnflag`, SUM(`source`.`l_quantity`) AS `sum`
FROM (SELECT `l_returnflag`, `l_quantity`, `l_linestatus` FROM `shop`.`lineitem`) AS `source`
WHERE `source`.`l_linestatus` = 'O'
GROUP BY `source`.`l_returnflag` ORDER BY `source`.`l_returnflag` ASC LIMIT 2000;
--> daily: SELECT daily.flag AS l_returnflag, CAST(sum(daily.qty) AS DECIMAL(25, 2)) AS sum FROM daily AS daily WHERE daily.status = 'O' GROUP BY daily.flag ORDER BY l_returnflag ASC LIMIT 2000
SELECT `Customer`.`c_mktsegment` AS `Customer__c_mktsegment`, count(*) AS `count`
FROM `shop`.`orders` AS `t1` INNER JOIN `shop`.`customer` AS `Customer` ON `t1`.`o_custkey` = `Customer`.`c_custkey`
WHERE `t1`.`o_orderpriority` <> '5-LOW'
GROUP BY `Customer`.`c_mktsegment` ORDER BY `count` DESC, `Customer`.`c_mktsegment` ASC;
--> segments: SELECT segments.segment AS Customer__c_mktsegment, sum(segments.orders) AS count FROM segments AS segments WHERE segments.priority <> '5-LOW' GROUP BY segments.segment ORDER BY count DESC, Customer__c_mktsegment ASC
SELECT `source`.`l_shipdate` AS `l_shipdate`, `source`.`sum` AS `sum` FROM
(SELECT `l_shipdate` AS `l_shipdate`, SUM(`l_quantity`) AS `sum` FROM `shop`.`lineitem` GROUP BY `l_shipdate`) AS `source`
WHERE `source`.`sum` > 100 ORDER BY `source`.`l_shipdate` ASC LIMIT 1048575;
--> daily: SELECT `source`.`l_shipdate` AS `l_shipdate`, `source`.`sum` AS `sum` FROM (SELECT daily.ship AS l_shipdate, CAST(sum(daily.qty) AS DECIMAL(25, 2)) AS sum FROM daily AS daily GROUP BY daily.ship) AS `source` WHERE `source`.`sum` > 100 ORDER BY `source`.`l_shipdate` ASC LIMIT 1048575
SELECT SUM(CASE WHEN `l_returnflag` = 'R' THEN 1 ELSE 0.0 END) / COUNT(*) AS `share` FROM `shop`.`lineitem`;
--> daily: - the type of CASE WHEN l_returnflag = 'R' THEN 1 ELSE 0.0 END is not known
SELECT SUM(CASE WHEN `l_returnflag` = 'R' THEN 1 ELSE 0 END) / COUNT(*) AS `share` FROM `shop`.`lineitem`;
--> daily: SELECT sum(CASE WHEN daily.flag = 'R' THEN daily.lines ELSE 0 END) / coalesce(sum(daily.lines), 0) AS share FROM daily AS daily
SELECT COUNT(DISTINCT `user_id`) AS `count` FROM `shop`.`events`;
--> hourly: - distinct values of other columns than keys cannot be counted: the view has no column for user_id
SELECT extract(hour from `ts`) AS `h`, count(*) AS `count` FROM `shop`.`events`
GROUP BY extract(hour from `ts`) ORDER BY extract(hour from `ts`) ASC;
--> hourly: SELECT EXTRACT(HOUR FROM hourly.hour) AS h, sum(hourly.hits) AS count FROM hourly AS hourly GROUP BY EXTRACT(HOUR FROM hourly.hour) ORDER BY h ASC
SELECT `country`, count(*) AS `count` FROM `shop`.`events`
WHERE `ts` >= timestamp '2024-01-01 00:00:00.000' AND `ts` < timestamp '2024-02-01 00:00:00.000' GROUP BY `country`;
--> hourly: SELECT hourly.country, sum(hourly.hits) AS count FROM hourly AS hourly WHERE hourly.hour >= CAST('2024-01-01 00:00:00.000' AS TIMESTAMP) AND hourly.hour < CAST('2024-02-01 00:00:00.000' AS TIMESTAMP) GROUP BY hourly.country
-- Looker
SELECT
    (DATE_FORMAT(lineitem.l_shipdate,'yyyy-MM')) AS `lineitem.ship_month`,
    COALESCE(SUM(lineitem.l_extendedprice), 0) AS `lineitem.total_price`
FROM shop.lineitem AS lineitem
GROUP BY
    1
ORDER BY
    1 DESC
LIMIT 500;
--> daily: SELECT (DATE_FORMAT(daily.ship, 'yyyy-MM')) AS `lineitem.ship_month`, COALESCE(CAST(sum(daily.revenue) AS DECIMAL(25, 2)), 0) AS `lineitem.total_price` FROM daily AS daily GROUP BY (DATE_FORMAT(daily.ship, 'yyyy-MM')) ORDER BY 1 DESC LIMIT 500
SELECT
    lineitem.l_returnflag  AS `lineitem.flag`,
    COUNT(*) AS `lineitem.count`,
    AVG(lineitem.l_quantity ) AS `lineitem.avg_quantity`
FROM shop.lineitem  AS lineitem
WHERE (lineitem.l_linestatus ) = 'F' AND ((( lineitem.l_shipdate  ) >= (DATE '1994-01-01') AND ( lineitem.l_shipdate  ) < (DATE '1995-01-01')))
GROUP BY 1 HAVING COUNT(*) > 10 ORDER BY 2 DESC LIMIT 500;
--> daily: SELECT daily.flag AS `lineitem.flag`, sum(daily.lines) AS `lineitem.count`, CAST(CAST(sum(daily.qty) AS DECIMAL(25, 2)) / CAST(sum(daily.qtys) AS DECIMAL(20, 0)) AS DECIMAL(19, 6)) AS `lineitem.avg_quantity` FROM daily AS daily WHERE daily.status = 'F' AND daily.ship >= (CAST('1994-01-01' AS DATE)) AND daily.ship < (CAST('1995-01-01' AS DATE)) GROUP BY daily.flag HAVING sum(daily.lines) > 10 ORDER BY 2 DESC LIMIT 500
WITH
-- Looker Query Context '{"user_id":12,"history_slug":"0a'b"}'
orders_by_day AS (SELECT o_orderdate AS d, o_totalprice AS p, o_custkey AS k FROM shop.orders)
SELECT customer.c_mktsegment AS `customer.segment`, COALESCE(SUM(orders_by_day.p ), 0) AS `total`
FROM orders_by_day LEFT JOIN shop.customer AS customer ON orders_by_day.k = customer.c_custkey
WHERE orders_by_day.d >= DATE '2020-06-01'
GROUP BY 1 ORDER BY 2 DESC LIMIT 500;
--> recent: SELECT customer.c_mktsegment AS `customer.segment`, COALESCE(CAST(sum(recent.total) AS DECIMAL(25, 2)), 0) AS total FROM recent AS recent LEFT JOIN shop.customer AS customer ON recent.o_custkey = customer.c_custkey WHERE recent.o_orderdate >= CAST('2020-06-01' AS DATE) GROUP BY customer.c_mktsegment ORDER BY 2 DESC LIMIT 500
SELECT store.s_state AS `store.state`, item.i_category AS `item.category`, COALESCE(SUM(store_sales.ss_net_paid), 0) AS `paid`
FROM shop.store_sales AS store_sales
INNER JOIN shop.store AS store ON store_sales.ss_store_sk = store.s_store_sk
INNER JOIN shop.item AS item ON item.i_item_sk = store_sales.ss_item_sk
INNER JOIN shop.date_dim AS date_dim ON store_sales.ss_sold_date_sk = date_dim.d_date_sk
WHERE date_dim.d_year = 2002
GROUP BY 1, 2 ORDER BY 3 DESC LIMIT 500;
--> sales: SELECT sales.state AS `store.state`, sales.category AS `item.category`, COALESCE(CAST(sum(sales.paid) AS DECIMAL(17, 2)), 0) AS paid FROM sales AS sales WHERE sales.year = 2002 GROUP BY sales.state, sales.category ORDER BY 3 DESC LIMIT 500
SELECT COUNT(CASE WHEN lineitem.l_returnflag = 'A' THEN 1 ELSE NULL END) AS `accepted`,
COUNT(CASE WHEN lineitem.l_returnflag = 'R' THEN lineitem.l_quantity END) AS `returned` FROM shop.lineitem AS lineitem LIMIT 500;
--> daily: SELECT coalesce(sum(CASE WHEN daily.flag = 'A' THEN daily.lines END), 0) AS accepted, coalesce(sum(CASE WHEN daily.flag = 'R' THEN daily.qtys END), 0) AS returned FROM daily AS daily LIMIT 500
SELECT * FROM (
SELECT *, DENSE_RANK() OVER (ORDER BY z___min_rank) as z___pivot_row_rank FROM (
SELECT l_returnflag AS `flag`, l_linestatus AS `status`, COUNT(*) AS `n`, MIN(COUNT(*)) OVER (PARTITION BY l_returnflag) AS z___min_rank
FROM shop.lineitem GROUP BY 1, 2) ww) aa WHERE z___pivot_row_rank <= 500 LIMIT 500;
--> daily: SELECT * FROM (SELECT *, DENSE_RANK() OVER (ORDER BY z___min_rank) AS z___pivot_row_rank FROM (SELECT daily.flag, daily.status, sum(daily.lines) AS n, MIN(sum(daily.lines)) OVER (PARTITION BY daily.flag) AS z___min_rank FROM daily AS daily GROUP BY daily.flag, daily.status) AS ww) AS aa WHERE z___pivot_row_rank <= 500 LIMIT 500
-- DBeaver, and what people type
select l_returnflag, l_linestatus, sum(l_quantity), count(*) from shop.lineitem group by l_returnflag, l_linestatus order by 1, 2;
--> daily: SELECT daily.flag AS l_returnflag, daily.status AS l_linestatus, CAST(sum(daily.qty) AS DECIMAL(25, 2)) AS `sum(l_quantity)`, sum(daily.lines) AS `count(1)` FROM daily AS daily GROUP BY daily.flag, daily.status ORDER BY 1, 2
SELECT count(*) FROM shop.lineitem;
--> daily: SELECT coalesce(sum(daily.lines), 0) AS `count(1)` FROM daily AS daily
SELECT * FROM (SELECT l_shipdate, l_returnflag, l_linestatus, sum(l_extendedprice) AS revenue FROM lineitem
GROUP BY l_shipdate, l_returnflag, l_linestatus) t ORDER BY l_shipdate LIMIT 200;
--> daily: SELECT * FROM (SELECT daily.ship AS l_shipdate, daily.flag AS l_returnflag, daily.status AS l_linestatus, daily.revenue FROM daily AS daily) AS t ORDER BY l_shipdate LIMIT 200
select l_shipmode, sum(l_extendedprice) as s from lineitem, orders where l_orderkey = o_orderkey and o_orderstatus = 'F'
group by l_shipmode;
--> shipped: SELECT shipped.mode AS l_shipmode, sum(shipped.price) AS s FROM shipped AS shipped WHERE shipped.order_status = 'F' GROUP BY shipped.mode
select o_orderdate, l_extendedprice, l_shipmode from orders join lineitem on o_orderkey = l_orderkey
where o_orderstatus <> 'P' and l_shipmode like 'AIR%' limit 200;
--> shipped: SELECT shipped.ordered AS o_orderdate, shipped.price AS l_extendedprice, shipped.mode AS l_shipmode FROM shipped AS shipped WHERE shipped.mode LIKE 'AIR%' LIMIT 200
select p_brand, sum(l_extendedprice) as s from lineitem l join orders o on l.l_orderkey = o.o_orderkey
join part p on p.p_partkey = l.l_partkey where o.o_orderstatus in ('F', 'O') group by p_brand order by s desc;
--> shipped: SELECT p.p_brand, sum(shipped.price) AS s FROM shipped AS shipped INNER JOIN part AS p ON p.p_partkey = shipped.part WHERE shipped.order_status IN ('F', 'O') GROUP BY p.p_brand ORDER BY s DESC
select n_name, sum(o_totalprice) as total from customer c join orders o on c.c_custkey = o.o_custkey
join nation n on n.n_nationkey = c.c_nationkey where o_orderdate >= '1994-01-01' and o_orderdate < '1995-01-01'
group by n_name order by total desc;
--> segments: SELECT n.n_name, CAST(sum(segments.total) AS DECIMAL(25, 2)) AS total FROM segments AS segments INNER JOIN nation AS n ON n.n_nationkey = segments.nation WHERE segments.day >= '1994-01-01' AND segments.day < '1995-01-01' GROUP BY n.n_name ORDER BY total DESC
select o_orderstatus, count(*) filter (where o_orderdate >= '2023-01-01') as late,
sum(o_totalprice) filter (where o_orderdate >= '2023-01-01') as worth
from orders where o_orderdate > '2021-12-31' group by o_orderstatus;
--> recent: SELECT recent.o_orderstatus, coalesce(sum(recent.n) FILTER(WHERE recent.o_orderdate >= '2023-01-01'), 0) AS late, CAST(sum(recent.total) FILTER(WHERE recent.o_orderdate >= '2023-01-01') AS DECIMAL(25, 2)) AS worth FROM recent AS recent WHERE recent.o_orderdate > '2021-12-31' GROUP BY recent.o_orderstatus
select 'A' as kind, sum(l_quantity) as q from lineitem where l_returnflag = 'A'
union all select 'R', sum(l_quantity) as q from lineitem where l_returnflag = 'R';
--> daily: SELECT 'A' AS kind, CAST(sum(daily.qty) AS DECIMAL(25, 2)) AS q FROM daily AS daily WHERE daily.flag = 'A' UNION ALL SELECT 'R' AS R, CAST(sum(daily.qty) AS DECIMAL(25, 2)) AS q FROM daily AS daily WHERE daily.flag = 'R'
with m as (select date_trunc('month', l_shipdate) as mon, sum(l_extendedprice) as r from lineitem group by 1)
select mon, r, r - lag(r, 1) over (order by mon) as change from m order by mon;
--> daily: SELECT mon, r, r - lag(r, 1) OVER (ORDER BY mon) AS change FROM (SELECT date_trunc('month', daily.ship) AS mon, CAST(sum(daily.revenue) AS DECIMAL(25, 2)) AS r FROM daily AS daily GROUP BY date_trunc('month', daily.ship)) AS m ORDER BY mon
select l_returnflag, sum(l_extendedprice) as r, rank() over (order by sum(l_extendedprice) desc) as place,
sum(sum(l_extendedprice)) over () as whole from lineitem group by l_returnflag;
--> daily: SELECT daily.flag AS l_returnflag, CAST(sum(daily.revenue) AS DECIMAL(25, 2)) AS r, rank() OVER (ORDER BY CAST(sum(daily.revenue) AS DECIMAL(25, 2)) DESC) AS place, sum(CAST(sum(daily.revenue) AS DECIMAL(25, 2))) OVER () AS whole FROM daily AS daily GROUP BY daily.flag
select max(l_linenumber), min(l_linenumber) from lineitem where l_shipdate = date '1998-01-01';
--> daily: SELECT max(daily.last_line) AS `max(l_linenumber)`, min(daily.first_line) AS `min(l_linenumber)` FROM daily AS daily WHERE daily.ship = CAST('1998-01-01' AS DATE)
select distinct l_returnflag, l_linestatus from lineitem order by l_returnflag;
--> daily: SELECT DISTINCT daily.flag AS l_returnflag, daily.status AS l_linestatus FROM daily AS daily ORDER BY l_returnflag
select l_returnflag f, case when l_linestatus = 'F' then 'done' else 'open' end s, sum(l_quantity) q from lineitem group by all;
--> daily: SELECT daily.flag AS f, CASE WHEN daily.status = 'F' THEN 'done' ELSE 'open' END AS s, CAST(sum(daily.qty) AS DECIMAL(25, 2)) AS q FROM daily AS daily GROUP BY daily.flag, CASE WHEN daily.status = 'F' THEN 'done' ELSE 'open' END
select country, device, hits from (select country, device, count(*) as hits from events group by country, device)
where hits > 10;
--> hourly: SELECT country, device, hits FROM (SELECT hourly.country, hourly.device, sum(hourly.hits) AS hits FROM hourly AS hourly GROUP BY hourly.country, hourly.device) WHERE hits > 10
select date_format(ts, 'yyyy-MM-dd') as day, count(*) as n from events group by date_format(ts, 'yyyy-MM-dd');
--> dated: - the view has no column for ts
select to_date(ts) as day, count(*) as n from events where to_date(ts) between '2024-01-01' and '2024-01-31'
group by to_date(ts);
--> dated: SELECT dated.day, sum(dated.hits) AS n FROM dated AS dated WHERE dated.day >= '2024-01-01' AND dated.day <= '2024-01-31' GROUP BY dated.day
select date_trunc('month', ts) as m, count(*) as n from events where ts >= '2024-01-01' and ts < '2024-07-01'
group by 1 order by 1;
--> dated: SELECT date_trunc('month', dated.day) AS m, sum(dated.hits) AS n FROM dated AS dated WHERE dated.day >= '2024-01-01' AND dated.day < '2024-07-01' GROUP BY date_trunc('month', dated.day) ORDER BY 1
select year(ts) as y, weekofyear(ts) as w, sum(clicks) / count(*) as rate from events group by year(ts), weekofyear(ts);
--> hourly: SELECT year(hourly.hour) AS y, weekofyear(hourly.hour) AS w, sum(hourly.clicks) / sum(hourly.hits) AS rate FROM hourly AS hourly GROUP BY year(hourly.hour), weekofyear(hourly.hour)
select country, count_if(device = 'tv') as tv, min(device) as first_device from events group by country;
--> hourly: SELECT hourly.country, coalesce(sum(CASE WHEN hourly.device = 'tv' THEN hourly.hits END), 0) AS tv, min(hourly.device) AS first_device FROM hourly AS hourly GROUP BY hourly.country
