-- Queries on the table of memory_corpus.py.
SELECT day, sum(amount) AS a, avg(amount), count(*), avg(n), round(avg(amount), 1) FROM sales
  WHERE shop = 'x' AND day >= '2023-01-01' AND n BETWEEN -3 AND 7 GROUP BY day HAVING sum(amount) > 10.5 ORDER BY a DESC, day LIMIT 10;
SELECT year(day), upper(shop), amount * 1.5, amount / 3, n + 1, n / 2, CAST(n AS BIGINT) FROM sales
  WHERE shop IN ('a', 'b') OR shop LIKE 'x%y_z' OR n IS NULL;
SELECT date_trunc('month', day), trunc(day, 'MM'), count(DISTINCT shop), sum(n) FILTER (WHERE b) FROM sales GROUP BY 1, 2;
SELECT date_trunc('quarter', day) AS q, trunc(day, 'YEAR'), count(DISTINCT shop) FROM sales GROUP BY 1, 2 ORDER BY q, 2;
SELECT shop, sum(orders), min(day), max(ts), min(tn), max(shop), min(amount), max(b), min(s), max(t) FROM sales GROUP BY shop ORDER BY shop;
SELECT n, CASE WHEN amount > 0 THEN 'pos' WHEN amount < 0 THEN 'neg' ELSE 'none' END, if(b, 1, 2), coalesce(amount, 0), nullif(n, 3) FROM sales;
SELECT quarter(day), month(day), dayofmonth(day), dayofweek(day), weekday(day), weekofyear(day), dayofyear(day), last_day(day),
  add_months(day, 1), add_months(day, -13), date_add(day, 5), date_sub(day, n), datediff(day, DATE'2020-01-01') FROM sales;
SELECT hour(ts), minute(ts), second(ts), date_trunc('hour', ts), date_trunc('week', ts), CAST(ts AS DATE), CAST(tn AS DATE),
  date_format(ts, 'yyyy-MM-dd HH:mm:ss'), date_format(day, 'yyyy-MM'), hour(tn) FROM sales;
SELECT concat(shop, '-', shop), shop || 'x', length(shop), substring(shop, 2, 2), left(shop, 1), trim(shop), ltrim(shop), rtrim(shop), shop LIKE '%y%',
  shop LIKE 'x%', shop LIKE '%z', shop LIKE 'x_y', contains(shop, 'y'), lower(shop), startswith(shop, 'a') FROM sales;
SELECT n % 3, n div 2, -n, abs(n), n * 2 - 1, amount + n, amount - 1.234, -amount, abs(amount), round(amount, 1), round(amount), n % -3 FROM sales WHERE n <> 0;
SELECT sum(amount) / count(*), sum(amount) / sum(n), avg(amount), avg(rate), avg(orders), sum(rate) FROM sales;
SELECT shop, sum(amount) / sum(orders), sum(amount) / nullif(sum(n), 0), sum(amount) * 100 / sum(orders) FROM sales GROUP BY shop;
SELECT shop, round(sum(amount) / count(*), 2), round(100.0 * count(b) / count(*), 1) FROM sales GROUP BY shop;
SELECT DISTINCT shop, b FROM sales;
SELECT shop, count(*) AS c FROM sales GROUP BY shop ORDER BY c DESC, shop LIMIT 3 OFFSET 1;
SELECT shop, n, amount FROM sales ORDER BY shop DESC NULLS LAST, n, amount, day LIMIT 7;
SELECT count(*) FROM sales;
SELECT count(*), sum(n), max(day), avg(n), avg(amount) FROM sales WHERE n > 1000;
SELECT count(n, amount), count(1), count(b) FROM sales;
SELECT * FROM (SELECT shop, sum(n) AS x FROM sales GROUP BY shop) WHERE x > 3 ORDER BY x, shop;
SELECT a.shop, a.x, b.y FROM (SELECT shop, sum(n) AS x FROM sales GROUP BY shop) a JOIN (SELECT shop, max(day) AS y FROM sales GROUP BY shop) b ON a.shop = b.shop;
SELECT a.shop, b.y FROM sales a LEFT JOIN (SELECT shop, max(day) AS y FROM sales WHERE n > 5 GROUP BY shop) b ON a.shop = b.shop;
SELECT a.shop, a.n, b.c FROM (SELECT shop, n FROM sales WHERE n > 6) a FULL OUTER JOIN (SELECT shop, count(*) AS c FROM sales WHERE n < -6 GROUP BY shop) b ON a.shop = b.shop;
SELECT shop FROM sales UNION ALL SELECT CAST(n AS STRING) FROM sales;
SELECT shop, n FROM sales WHERE n > 5 UNION SELECT shop, s FROM sales WHERE s > 250;
SELECT shop, n FROM sales WHERE shop IN (SELECT shop FROM sales WHERE n > 6);
SELECT shop, n FROM sales o WHERE NOT EXISTS (SELECT 1 FROM sales i WHERE i.shop = o.shop AND i.n > 7);
SELECT min(d), max(d), count(f) FROM sales;
SELECT d, d * 2, d + 0.1D, CAST(f AS DOUBLE) / 2, d > 0.2, CAST(f AS DOUBLE) FROM sales WHERE d > 0.2 OR f < 1;
SELECT shop, row_number() OVER (PARTITION BY shop ORDER BY n, amount, orders, day, ts), dense_rank() OVER (ORDER BY shop DESC) FROM sales;
SELECT shop, n FROM (SELECT shop, n, rank() OVER (PARTITION BY b ORDER BY n DESC) AS r FROM sales) WHERE r <= 2;
SELECT shop, sum(CASE WHEN b THEN amount ELSE 0 END), sum(if(n > 0, n, 0)), count_if(b), bool_or(b), bool_and(b) FROM sales GROUP BY shop;
SELECT CAST(amount AS DECIMAL(20,4)), CAST(n AS DECIMAL(10,2)), CAST(n AS STRING), CAST(b AS STRING), CAST(day AS STRING), CAST(amount AS STRING), CAST(amount AS DOUBLE), CAST(n AS DOUBLE) FROM sales;
SELECT CAST(amount AS DOUBLE) / 7, CAST(n AS DOUBLE) / 3, CAST(orders AS DOUBLE) FROM sales;
SELECT shop, b, sum(n), count(*) FROM sales GROUP BY ROLLUP (shop, b);
SELECT shop, b, sum(amount), grouping(shop) FROM sales GROUP BY CUBE (shop, b);
SELECT year(day) AS y, month(day) AS m, sum(amount) FROM sales GROUP BY year(day), month(day) ORDER BY y, m;
SELECT shop, amount FROM sales WHERE amount BETWEEN 10 AND 1000.5 AND NOT (shop = 'a') ORDER BY 2, 1;
SELECT shop, sum(amount) * 100.0 / (SELECT sum(amount) FROM sales) FROM sales GROUP BY shop;
SELECT shop, n <=> NULL, n <=> 3, greatest(n, s), least(n, s, 0) FROM sales;
SELECT s + t, s * 2, t - 1, CAST(t AS INT) * s FROM sales;
SELECT rate * amount, rate + amount, rate - 1, rate / amount, amount / rate FROM sales WHERE amount <> 0 AND rate <> 0;
SELECT tn, ts, day FROM sales WHERE tn > TIMESTAMP_NTZ'2024-03-01 00:00:00' ORDER BY tn, ts;
SELECT max(sum_n), min(sum_n) FROM (SELECT shop, sum(n) AS sum_n FROM sales GROUP BY shop);
WITH by_day AS (SELECT day, sum(amount) AS a FROM sales GROUP BY day) SELECT year(day) AS y, avg(a), max(a) FROM by_day GROUP BY year(day) ORDER BY y;
SELECT shop FROM sales WHERE shop = 'it''s' OR shop = "100%" OR shop = ' a ';
SELECT day, n FROM sales WHERE day = DATE'2024-05-06' OR day < '1600-01-01' OR n IN (1, 2, 3, NULL);
SELECT 1 AS one, 'text' AS text, shop FROM sales WHERE b;
-- Several DISTINCT, and values that a key determines.
SELECT count(DISTINCT shop), count(DISTINCT n), sum(DISTINCT s), avg(DISTINCT amount), count(*), max(day), min(ts), sum(amount) FROM sales;
SELECT shop, count(DISTINCT n), count(DISTINCT day) FILTER (WHERE b), count(DISTINCT b), sum(orders) FILTER (WHERE n > 2), count(DISTINCT n) FILTER (WHERE n < 0) FROM sales GROUP BY shop;
SELECT b, count(DISTINCT shop), count(DISTINCT n), avg(amount), max(rate) FROM sales WHERE n > 100 GROUP BY b;
SELECT count(DISTINCT n) FILTER (WHERE b), count(DISTINCT n), min(d) FROM sales HAVING count(DISTINCT shop) > 1;
SELECT shop, first(lower(shop)), any_value(b) FILTER (WHERE b), last(m, true) FROM (SELECT shop, b, max(n) OVER (PARTITION BY shop) AS m FROM sales) GROUP BY shop;
-- Windows.
SELECT shop, day, n, sum(n) OVER (PARTITION BY shop ORDER BY day), count(*) OVER (), avg(amount) OVER (PARTITION BY b), min(n) OVER (ORDER BY day DESC),
  max(ts) OVER (PARTITION BY shop ORDER BY n RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING), count(n) OVER (PARTITION BY shop, b),
  percent_rank() OVER (PARTITION BY shop ORDER BY n), cume_dist() OVER (ORDER BY n), sum(amount) OVER (PARTITION BY shop) FROM sales;
SELECT y, m, a, a - lag(a) OVER (ORDER BY y, m) AS change, lead(a, 2, 0BD) OVER (PARTITION BY y ORDER BY m DESC), sum(a) OVER (PARTITION BY y ORDER BY m ROWS UNBOUNDED PRECEDING),
  sum(a) OVER (ORDER BY y, m ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING), row_number() OVER (ORDER BY y DESC, m), ntile(3) OVER (ORDER BY m, y), lag(m, 1, -1) OVER (PARTITION BY m ORDER BY y NULLS LAST),
  first_value(a) OVER (PARTITION BY y ORDER BY m), last(nullif(m, 3), true) OVER (PARTITION BY y ORDER BY m ROWS BETWEEN 3 PRECEDING AND CURRENT ROW)
  FROM (SELECT year(day) AS y, month(day) AS m, sum(amount) AS a FROM sales GROUP BY 1, 2) ORDER BY y, m;
SELECT shop, sum(amount) AS a, sum(sum(amount)) OVER () AS whole, rank() OVER (ORDER BY sum(amount) DESC), sum(n) / sum(sum(n)) OVER () FROM sales GROUP BY shop;
-- Casts of decimals, patterns, seconds.
SELECT CAST(amount AS DECIMAL(12,1)), CAST(rate AS DECIMAL(14,3)), CAST(amount AS DECIMAL(20,0)), CAST(amount / 3 AS DECIMAL(19,6)) FROM sales;
SELECT date_format(ts, 'd MMM yy, h:m:s a'), date_format(day, 'EEEE dd MMMM y'), date_format(ts, 'E H.DDD'), date_format(ts, 'yyyy-MM-01 00:00:00'),
  from_unixtime(unix_timestamp(day), 'yyyy-MM-01 00:00:00'), unix_timestamp(ts), unix_timestamp(day), year(CAST(concat(to_date(day), ' 00:00:00') AS TIMESTAMP)),
  CAST(concat(day, ' 00:00:00') AS TIMESTAMP), unix_timestamp(coalesce(ts, TIMESTAMP'1969-12-31 23:59:58.5')), from_unixtime(n * 1000000, 'yyyy MM') FROM sales WHERE day > '1000-01-01';
-- Several right answers.
SELECT shop, n FROM (SELECT shop, n, row_number() OVER (PARTITION BY b ORDER BY n DESC) AS r FROM sales) WHERE r <= 2;
SELECT shop, count(*) AS c FROM (SELECT shop FROM sales LIMIT 50) GROUP BY shop ORDER BY c;
SELECT shop, n FROM (SELECT shop, n FROM sales ORDER BY n LIMIT 20) ORDER BY shop;
SELECT left('abc', 2) AS l, greatest(3, 5) AS g, n FROM sales WHERE n = 3 AND n > 1 OR shop LIKE 'abc';
SELECT count(*), sum(n) FROM sales WHERE s = -19S OR if(n = -19, s, s) > 20S;
SELECT o.shop, i.n FROM sales o LEFT JOIN (SELECT shop, n, b FROM sales WHERE n > 6) i ON o.shop = i.shop WHERE coalesce(i.n, 5) > 3;
SELECT n, amount FROM sales WHERE CAST(n AS BIGINT) > 3000000000 OR amount > 1000 OR day = CAST('2024-01-01' AS DATE);
-- Parts from the end, and escapes.
SELECT substring(shop, -2), substring(shop, -3, 2), substring(shop, -4, 3), substring(shop, 0, 2), substring(shop, -2, 0), right(shop, 3), substring(shop, -9, 7),
  shop LIKE 'zz\\%', shop LIKE 'xy!_%' ESCAPE '!', shop LIKE '100!%' ESCAPE '!', shop LIKE '!!' ESCAPE '!', shop LIKE '%\\_z', shop LIKE '%y!_!%' ESCAPE '!', shop LIKE 'x\\_%' FROM sales;
