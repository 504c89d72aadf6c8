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
